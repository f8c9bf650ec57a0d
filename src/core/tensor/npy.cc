/// npy.cc: the .npy format (NumPy Enhancement Proposal 1): a magic string, a version, the length of
/// a header, a header that is a Python dictionary literal with exactly the keys descr,
/// fortran_order and shape, then the elements.
#include "weft/core/tensor/npy.h"

#include <cstring>

#include "weft/support/check.h"
#include "weft/support/checked.h"
#include "weft/support/file.h"
#include "weft/support/strings.h"

namespace weft {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kMaxHeader = size_t{1} << 20;  // a shape of 64 extents needs some hundred bytes
constexpr size_t kMaxRank = 64;                 // NumPy's own bound
constexpr size_t kDataAlignment = 64;  // of the elements in the file, so that it can be mapped

struct Header {
  std::string descr;
  bool fortran = false;
  std::vector<int64_t> dims;
};

/// Reads the dictionary literal that NumPy writes, and no other Python.
class HeaderReader {
 public:
  HeaderReader(std::string_view text, const std::string& place) : text_(text), place_(place) {}

  Header Read() {
    Header h;
    bool has_descr = false, has_order = false, has_shape = false;
    Expect('{');
    while (!Accept('}')) {
      const std::string key = String();
      Expect(':');
      if (key == "descr" && !has_descr) {
        has_descr = true;
        if (Peek() == '[') Fail("record types are not supported");
        h.descr = String();
      } else if (key == "fortran_order" && !has_order) {
        has_order = true;
        h.fortran = Bool();
      } else if (key == "shape" && !has_shape) {
        has_shape = true;
        h.dims = Dims();
      } else {
        Fail(fmt::format("unexpected or repeated key '{}' in the header", key));
      }
      if (!Accept(',') && Peek() != '}') Fail("expected ',' or '}' in the header");
    }
    if (!has_descr || !has_order || !has_shape)
      Fail("the header lacks descr, fortran_order or shape");
    if (!Trim(text_.substr(at_)).empty()) Fail("there is text after the header");
    return h;
  }

 private:
  [[noreturn]] void Fail(const std::string& what) const {
    ThrowError(ErrorCode::kBadTensorFile, what, place_);
  }
  char Peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool Accept(char c) {
    if (Peek() != c) return false;
    ++at_;
    return true;
  }
  void Expect(char c) {
    if (!Accept(c)) Fail(fmt::format("expected '{}' in the header", c));
  }
  std::string String() {
    const char quote = Peek();
    if (quote != '\'' && quote != '"') Fail("expected a string in the header");
    const size_t end = text_.find(quote, ++at_);
    if (end == std::string_view::npos) Fail("a string in the header is not closed");
    std::string out(text_.substr(at_, end - at_));
    at_ = end + 1;
    return out;
  }
  bool Bool() {
    Peek();
    for (const std::string_view word : {"True", "False"}) {
      if (!StartsWith(text_.substr(at_), word)) continue;
      at_ += word.size();
      return word == "True";
    }
    Fail("expected True or False after fortran_order");
  }
  std::vector<int64_t> Dims() {
    std::vector<int64_t> dims;
    Expect('(');
    while (!Accept(')')) {
      Peek();
      const size_t begin = at_;
      while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
      const auto extent = TryParseInt64(text_.substr(begin, at_ - begin));
      if (!extent) Fail("expected dimensions in the shape");
      dims.push_back(*extent);
      if (dims.size() > kMaxRank) Fail(fmt::format("the rank is above {}", kMaxRank));
      if (!Accept(',') && Peek() != ')') Fail("expected ',' or ')' in the shape");
    }
    return dims;
  }

  std::string_view text_;
  const std::string& place_;
  size_t at_ = 0;
};

DType DTypeOfDescr(const std::string& descr, const std::string& place) {
  const std::string_view code = std::string_view(descr).substr(descr.empty() ? 0 : 1);
  for (const DTypeTraits& row : DTypeTable::kRows) {
    if (code.empty() || row.numpy != code) continue;
    const char order = descr[0];
    if (order == '<' || order == '=' || (order == '|' && row.bits == 8)) return row.type;
    if (order == '>') {
      ThrowError(ErrorCode::kBadTensorFile,
                 fmt::format("big-endian data ('{}') is not supported", descr), place,
                 "convert it: numpy.save(path, a.astype(a.dtype.newbyteorder('<')))");
    }
  }
  const char kind = code.empty() ? '?' : code[0];
  const char* what = kind == 'U' || kind == 'S' ? "strings"
                     : kind == 'O'              ? "Python objects"
                     : kind == 'V'              ? "raw records"
                                                : "this type";
  ThrowError(ErrorCode::kBadTensorFile,
             fmt::format("{} ('{}') cannot be read from a .npy file", what, descr), place);
}

/// Copies column-major elements into row-major order, the output in order, one counter per axis.
void TransposeToC(const char* from, size_t element, const std::vector<int64_t>& dims, int64_t count,
                  char* to) {
  const size_t rank = dims.size();
  std::vector<int64_t> at(rank, 0), stride(rank, 1);
  for (size_t a = 1; a < rank; ++a) stride[a] = stride[a - 1] * dims[a - 1];
  int64_t offset = 0;
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(to + size_t(i) * element, from + size_t(offset) * element, element);
    for (size_t a = rank; a-- > 0;) {
      offset += stride[a];
      if (++at[a] < dims[a]) break;
      offset -= stride[a] * dims[a];
      at[a] = 0;
    }
  }
}

}  // namespace

TensorPtr ParseNpy(std::string_view bytes, const std::string& place) {
  const auto fail = [&place](std::string what) {
    ThrowError(ErrorCode::kBadTensorFile, std::move(what), place);
  };
  if (bytes.size() < 10 || !StartsWith(bytes, kMagic)) fail("this is not a .npy file");
  const int major = static_cast<unsigned char>(bytes[6]),
            minor = static_cast<unsigned char>(bytes[7]);
  if (major < 1 || major > 3 || minor != 0)
    fail(fmt::format("version {}.{} of the .npy format is not known", major, minor));
  const size_t length_bytes = major == 1 ? 2 : 4;
  const size_t header_at = 8 + length_bytes;
  if (bytes.size() < header_at) fail("the file ends within its header");
  size_t header_length = 0;
  for (size_t i = 0; i < length_bytes; ++i)
    header_length |= size_t{static_cast<unsigned char>(bytes[8 + i])} << (8 * i);
  if (header_length > kMaxHeader)
    fail(fmt::format("the header has {} bytes, more than {}", header_length, kMaxHeader));
  if (bytes.size() - header_at < header_length) fail("the file ends within its header");
  const Header h = HeaderReader(bytes.substr(header_at, header_length), place).Read();
  const DType dtype = DTypeOfDescr(h.descr, place);
  int64_t count = 0, want = 0;
  try {
    count = NumElements(h.dims);
    want = DTypeBytes(dtype, count);
  } catch (const Error&) {
    fail("the shape is larger than 64 bits can count");
  }
  const std::string_view data = bytes.substr(header_at + header_length);
  // Before any memory is taken: the header may promise what the file does not hold.
  if (int64_t(data.size()) != want)
    fail(fmt::format("expected {} bytes of elements, got {}", want, data.size()));
  auto t = std::make_shared<Tensor>(dtype, h.dims);
  if (want == 0) return t;
  if (h.fortran && h.dims.size() > 1) {
    TransposeToC(data.data(), size_t(DTypeBits(dtype) / 8), h.dims, count,
                 t->mutable_data_as<char>());
  } else {
    std::memcpy(t->mutable_data(), data.data(), size_t(want));
  }
  if (dtype == DType::kBool) {
    // Kernels rely on a bool being 0 or 1.
    auto* p = t->mutable_data_as<uint8_t>();
    for (int64_t i = 0; i < count; ++i) p[i] = p[i] != 0;
  }
  return t;
}

TensorPtr ReadNpy(const std::string& path, int64_t max_bytes) {
  return ParseNpy(ReadFile(path, max_bytes), path);
}

std::string FormatNpy(const Tensor& tensor) {
  const std::string_view code = TraitsOf(tensor.dtype()).numpy;
  WEFT_CHECK(!code.empty() && tensor.is_tensor(), kUnsupported,
             "a value of type {} cannot be written as .npy", tensor.type().ToString());
  std::string shape;
  for (const int64_t d : tensor.dims()) shape += fmt::format(shape.empty() ? "{}" : ", {}", d);
  if (tensor.rank() == 1) shape += ',';
  std::string header = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}), }}",
                                   DTypeBits(tensor.dtype()) == 8 ? '|' : '<', code, shape);
  constexpr size_t kPreamble = 10;
  while ((kPreamble + header.size() + 1) % kDataAlignment != 0) header += ' ';
  header += '\n';
  std::string out(kMagic);
  out += '\x01';
  out += '\0';
  out += char(header.size() & 0xff);
  out += char(header.size() >> 8);
  out += header;
  out.append(static_cast<const char*>(tensor.data()), size_t(tensor.num_bytes()));
  return out;
}

void WriteNpy(const std::string& path, const Tensor& tensor) {
  WriteFileAtomic(path, FormatNpy(tensor));
}

}  // namespace weft
