/// tensor_data.cc: see tensor_data.h. Payload fields by dtype follow onnx.proto: raw bytes
/// (little-endian), or one of the typed lists, where small types are kept one a 32-bit integer and
/// types below a byte packed into bytes first.
#include "tensor_data.h"

#include <cstring>
#include <map>

#include "weft/support/check.h"
#include "weft/support/checked.h"
#include "weft/support/request.h"
#include "weft/support/strings.h"

namespace weft::onnx_import {
namespace {

enum class Field { kFloat, kInt32, kInt64, kDouble, kUint64, kString };

Field FieldOf(DType t) {
  switch (t) {
    case DType::kF32:
    case DType::kC64:
      return Field::kFloat;
    case DType::kF64:
    case DType::kC128:
      return Field::kDouble;
    case DType::kI64:
      return Field::kInt64;
    case DType::kU32:
    case DType::kU64:
      return Field::kUint64;
    case DType::kString:
      return Field::kString;
    default:
      return Field::kInt32;
  }
}

int64_t SizeOf(const pb::TensorProto& t, Field f) {
  switch (f) {
    case Field::kFloat:
      return t.float_data_size();
    case Field::kInt32:
      return t.int32_data_size();
    case Field::kInt64:
      return t.int64_data_size();
    case Field::kDouble:
      return t.double_data_size();
    case Field::kUint64:
      return t.uint64_data_size();
    case Field::kString:
      return t.string_data_size();
  }
  return 0;
}

/// Numbers in the typed list for `count` elements.
int64_t ListSize(DType t, int64_t count) {
  if (t == DType::kC64 || t == DType::kC128) return CheckedMul(count, 2);
  const int bits = DTypeBits(t);
  return bits != 0 && bits < 8 ? DTypeBytes(t, count) : count;
}

template <class To, class List>
void CopyAs(Tensor* out, const List& list) {
  To* to = out->mutable_data_as<To>();
  for (int64_t i = 0; i < list.size(); ++i) to[i] = static_cast<To>(list.Get(int(i)));
}

/// Values of a list of 32-bit integers as integers of `Bytes` bytes; what does not fit is an error
/// and no silent wrap.
template <class To>
void CopyNarrow(Tensor* out, const pb::TensorProto& t, int64_t lo, int64_t hi) {
  To* to = out->mutable_data_as<To>();
  for (int i = 0; i < t.int32_data_size(); ++i) {
    const int64_t v = t.int32_data(i);
    WEFT_CHECK(v >= lo && v <= hi, kInvalidModel, "value {} at {} is out of the range of {}", v, i,
               DTypeName(out->dtype()));
    to[i] = static_cast<To>(v);
  }
}

void CopyInt32List(Tensor* out, const pb::TensorProto& t) {
  switch (out->dtype()) {
    case DType::kI32:
      return CopyAs<int32_t>(out, t.int32_data());
    case DType::kI16:
      return CopyNarrow<int16_t>(out, t, INT16_MIN, INT16_MAX);
    case DType::kU16:
      return CopyNarrow<uint16_t>(out, t, 0, UINT16_MAX);
    case DType::kI8:
      return CopyNarrow<int8_t>(out, t, INT8_MIN, INT8_MAX);
    case DType::kU8:
      return CopyNarrow<uint8_t>(out, t, 0, UINT8_MAX);
    case DType::kBool:
      return CopyNarrow<uint8_t>(out, t, 0, 1);
    default:  // narrow floats and packed types, by bits
      return DTypeBits(out->dtype()) == 16 ? CopyNarrow<uint16_t>(out, t, INT16_MIN, UINT16_MAX)
                                           : CopyNarrow<uint8_t>(out, t, INT8_MIN, UINT8_MAX);
  }
}

TensorFacts ExtentFacts(int code, const google::protobuf::RepeatedField<int64_t>& dims,
                        const Limits& limits) {
  TensorFacts f;
  const auto dtype = DTypeOfOnnx(code);
  WEFT_CHECK(code != 0, kInvalidModel, "the tensor has no dtype");
  WEFT_CHECK(dtype.has_value(), kUnsupported, "{}", UnknownDType(code));
  f.dtype = *dtype;
  WEFT_CHECK(dims.size() <= 64, kLimit, "a tensor of rank {}", dims.size());
  f.dims.assign(dims.begin(), dims.end());
  for (const int64_t d : f.dims) WEFT_CHECK(d >= 0, kInvalidModel, "dimension {} is negative", d);
  try {
    f.count = NumElements(f.dims);
    f.bytes = f.dtype == DType::kString ? 0 : DTypeBytes(f.dtype, f.count);
  } catch (const Error&) {
    WEFT_THROW(kLimit, "the element count of [{}] overflows 64 bits", fmt::join(f.dims, ", "));
  }
  Limits::Check("tensor_bytes", f.dtype == DType::kString ? f.count : f.bytes, limits.tensor_bytes);
  return f;
}

}  // namespace

bool IsExternalKey(std::string_view key) {
  return key == "location" || key == "offset" || key == "length" || key == "checksum";
}

ExternalLocation LocationOf(const pb::TensorProto& t) {
  ExternalLocation at;
  std::map<std::string_view, std::string_view> seen;
  for (const auto& entry : t.external_data()) {
    const auto [it, fresh] = seen.emplace(entry.key(), entry.value());
    WEFT_CHECK(fresh || it->second == entry.value(), kInvalidModel,
               "external data has two values of {}", Printable(entry.key()));
    const auto number = [&] {
      const auto v = TryParseInt64(entry.value());
      WEFT_CHECK(v && *v >= 0, kInvalidModel, "external data {} is {}", entry.key(),
                 Printable(entry.value()));
      return *v;
    };
    if (entry.key() == "location")
      at.path = entry.value();
    else if (entry.key() == "offset")
      at.offset = number();
    else if (entry.key() == "length")
      at.length = number();
    // "checksum" and keys of other tools say nothing that is needed.
  }
  WEFT_CHECK(!at.path.empty(), kInvalidModel, "external data without a location");
  return at;
}

TensorFacts CheckTensor(const pb::TensorProto& t, const Limits& limits) {
  const TensorFacts f = ExtentFacts(t.data_type(), t.dims(), limits);
  WEFT_CHECK(!t.has_segment(), kUnsupported, "tensors in segments are not supported");
  const Field own = FieldOf(f.dtype);
  for (const Field field : {Field::kFloat, Field::kInt32, Field::kInt64, Field::kDouble,
                            Field::kUint64, Field::kString}) {
    WEFT_CHECK(SizeOf(t, field) == 0 || (field == own && !t.has_raw_data() && !IsExternal(t)),
               kInvalidModel, "a tensor of {} holds data in the wrong field, or in two fields",
               DTypeName(f.dtype));
  }
  if (IsExternal(t)) {
    WEFT_CHECK(f.dtype != DType::kString, kInvalidModel, "strings cannot be external");
    WEFT_CHECK(!t.has_raw_data() || t.raw_data().empty(), kInvalidModel,
               "an external tensor holds data too");
    LocationOf(t);
  } else if (t.has_raw_data() && f.dtype == DType::kString) {
    WEFT_THROW(kInvalidModel, "strings cannot be raw data");
  } else if (t.has_raw_data()) {
    WEFT_CHECK(int64_t(t.raw_data().size()) == f.bytes, kInvalidModel,
               "{}[{}] needs {} bytes, the payload has {}", DTypeName(f.dtype),
               fmt::join(f.dims, ", "), f.bytes, t.raw_data().size());
  } else {
    const int64_t want = ListSize(f.dtype, f.count), got = SizeOf(t, own);
    WEFT_CHECK(got == want, kInvalidModel, "{}[{}] needs {} values, the payload has {}",
               DTypeName(f.dtype), fmt::join(f.dims, ", "), want, got);
  }
  return f;
}

TensorFacts CheckSparse(const pb::SparseTensorProto& t, const Limits& limits) {
  const TensorFacts values = CheckTensor(t.values(), limits),
                    indices = CheckTensor(t.indices(), limits);
  TensorFacts dense = ExtentFacts(t.values().data_type(), t.dims(), limits);
  WEFT_CHECK(!IsExternal(t.values()) && !IsExternal(t.indices()), kUnsupported,
             "external data in a sparse tensor");
  WEFT_CHECK(values.dims.size() == 1 && indices.dtype == DType::kI64, kInvalidModel,
             "a sparse tensor needs a vector of values and i64 indices");
  WEFT_CHECK(DTypeBits(dense.dtype) % 8 == 0 && dense.dtype != DType::kString, kUnsupported,
             "sparse tensors of {} are not supported", DTypeName(dense.dtype));
  const int64_t n = values.count, rank = int64_t(dense.dims.size());
  const bool linear = indices.dims == std::vector<int64_t>{n};
  WEFT_CHECK(linear || indices.dims == std::vector<int64_t>({n, rank}), kInvalidModel,
             "the indices of a sparse tensor have shape [{}]", fmt::join(indices.dims, ", "));
  // It becomes dense; a few bytes must not become a machine's memory.
  Limits::Check("folded_bytes_each", dense.bytes, limits.folded_bytes_each);
  return dense;
}

bool TensorReader::IsMissing(const pb::TensorProto& t, const TensorFacts& f) {
  const ExternalLocation at = LocationOf(t);
  try {
    files_->Check(at.path, at.offset, at.length, f.bytes);
    return false;
  } catch (const Error& e) {
    if (!make_missing_ || e.code() != ErrorCode::kIo) throw;
    return true;
  }
}

void TensorReader::CheckExternal(const pb::TensorProto& t) {
  if (IsExternal(t)) IsMissing(t, CheckTensor(t, limits_));
}

TensorPtr TensorReader::Make(pb::TensorProto* t) {
  RequestScope::Poll();
  const TensorFacts f = CheckTensor(*t, limits_);
  std::shared_ptr<std::string> bytes;
  if (IsExternal(*t)) {
    if (IsMissing(*t, f)) return make_missing_(f.dtype, f.dims);
    const ExternalLocation at = LocationOf(*t);
    bytes = files_->Read(at.path, at.offset, f.bytes);
  } else if (t->has_raw_data()) {
    bytes = std::make_shared<std::string>(std::move(*t->mutable_raw_data()));
  }
  if (bytes) {
    // Anything but 0 is true; kernels rely on 1.
    if (f.dtype == DType::kBool) {
      for (char& c : *bytes) c = c != 0;
    }
    void* data = bytes->data();
    return std::make_shared<Tensor>(f.dtype, f.dims, data, bytes);
  }
  auto out = std::make_shared<Tensor>(f.dtype, f.dims);
  switch (FieldOf(f.dtype)) {
    case Field::kFloat:
      CopyAs<float>(out.get(), t->float_data());
      break;
    case Field::kDouble:
      CopyAs<double>(out.get(), t->double_data());
      break;
    case Field::kInt64:
      CopyAs<int64_t>(out.get(), t->int64_data());
      break;
    case Field::kInt32:
      CopyInt32List(out.get(), *t);
      break;
    case Field::kUint64:
      if (f.dtype == DType::kU64) {
        CopyAs<uint64_t>(out.get(), t->uint64_data());
      } else {
        for (const uint64_t v : t->uint64_data())
          WEFT_CHECK(v <= UINT32_MAX, kInvalidModel, "value {} is out of the range of u32", v);
        CopyAs<uint32_t>(out.get(), t->uint64_data());
      }
      break;
    case Field::kString:
      out->mutable_strings().assign(t->string_data().begin(), t->string_data().end());
      break;
  }
  return out;
}

TensorPtr TensorReader::Read(pb::TensorProto* t, bool keep) {
  if (!keep) return Make(t);
  TensorPtr& made = made_[t];
  if (!made) made = Make(t);
  return made;
}

TensorPtr TensorReader::ReadSparse(pb::SparseTensorProto* t, bool keep) {
  if (!keep) return MakeSparse(t);
  TensorPtr& made = made_[t];
  if (!made) made = MakeSparse(t);
  return made;
}

TensorPtr TensorReader::MakeSparse(pb::SparseTensorProto* t) {
  const TensorFacts f = CheckSparse(*t, limits_);
  const TensorPtr values = Make(t->mutable_values()), indices = Make(t->mutable_indices());
  auto out = std::make_shared<Tensor>(f.dtype, f.dims);
  const size_t width = size_t(DTypeBits(f.dtype)) / 8;
  const bool linear = indices->rank() == 1;
  for (int64_t i = 0; i < values->num_elements(); ++i) {
    int64_t at = linear ? indices->data_as<int64_t>()[i] : 0;
    WEFT_CHECK(at >= 0 && (!linear || at < f.count), kInvalidModel,
               "index {} of a sparse tensor is out of range", at);
    for (size_t d = 0; !linear && d < f.dims.size(); ++d) {
      const int64_t k = indices->data_as<int64_t>()[i * int64_t(f.dims.size()) + int64_t(d)];
      WEFT_CHECK(k >= 0 && k < f.dims[d], kInvalidModel,
                 "index {} of a sparse tensor is out of range", k);
      at = at * f.dims[d] + k;
    }
    std::memcpy(static_cast<char*>(out->mutable_data()) + size_t(at) * width,
                static_cast<const char*>(values->data()) + size_t(i) * width, width);
  }
  return out;
}

}  // namespace weft::onnx_import
