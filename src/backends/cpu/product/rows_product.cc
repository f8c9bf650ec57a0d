/// rows_product.cc: see rows_product.h.
#ifdef WEFT_HAVE_ONEDNN

#include "rows_product.h"

#include <optional>

#include "weft/support/checked.h"

namespace weft::cpu {

Buffer PlaceOfSums(Recipe* r, const Desc& extents, const Buffer& row, const Buffer& y,
                   const Buffer& later) {
  const Dims dims = DimsOf(extents);
  return later || (row && CheckedProduct(dims) == dims.back()) ? r->Temporary(extents) : y;
}

std::string AddRowsProduct(Recipe* r, const RowsProduct& p, const PostOps& post,
                           const std::function<void(const Buffer&)>& before) {
  const Buffer y = r->Output(0, p.y);
  const Buffer addend = post.addend() ? r->Input(post.addend()->operand, p.y) : Buffer();
  const std::optional<PostOps> behind =
      post.addend() && !before ? post.BehindAddend() : std::nullopt;
  const Buffer made = PlaceOfSums(r, p.y, p.row, y, behind ? Buffer() : addend);
  r->Keep(p.packed, p.packed_bytes);
  const Buffer scratch = p.scratch_floats > 0 ? r->Temporary(Plain({p.scratch_floats})) : Buffer();
  r->AddHost(
      [run = p.run](void* const* at) {
        run(static_cast<const float*>(at[0]), static_cast<const float*>(at[1]),
            static_cast<const float*>(at[2]), static_cast<float*>(at[3]),
            static_cast<float*>(at[4]));
      },
      {p.x, p.row, behind ? addend : Buffer(), made, scratch});
  if (before) before(made);
  if (behind)
    behind->AddSteps(r, made, {});
  else
    post.AddSteps(r, made, addend);
  r->WriteBack(made, y);
  return post.description();
}

}  // namespace weft::cpu

#endif  // WEFT_HAVE_ONEDNN
