/// kernel_form.h: the forms of generated kernels (`KernelForm`), and what others may ask of them.
///
/// A form is a template, which says what a work item is (the unit that launches count), and how the
/// loops are arranged:
///   elementwise   a work item is a point of all loops; every store runs once for it. `Reduce`
///                 nodes that are left in an expression (a window, a contraction) are loops inside
///                 the point.
///   row           a work item is a row: a point of the outer loops P, with all of the row loops R.
///                 `Reduce` nodes, whose extents are exactly R, are computed once per row; stores
///                 run over P x R, or over P when `per_row`. A Reduce may use others (softmax: max,
///                 then the sum of exp(x - max)).
///   columns       row with rows_in_lanes(): memory is contiguous along P, not R, so that lanes of
///                 a vector or threads of a warp take neighbouring rows.
/// Two more are made of kernels of these forms, and are no templates:
///   transposing   elementwise where memory is read along another loop than it is written along:
///                 tiles in shared memory (codegen/cuda/print/transpose.cc).
///   multi         several kernels side by side in one launch: `LoweredKernel::parts`
///                 (codegen/lower/parts.cc, pieces.cc).
///
/// Whoever adds a template adds an enumerator, and the compiler names the files that have to say
/// what they make of it: lowering and the printers, by a switch without default. No other code
/// looks at the template (tools/check_names.py); it asks the predicates.
#pragma once

#include <cstdint>

namespace weft {

enum class KernelTemplate : uint8_t {
  kElementwise,
  kRow,
};

struct KernelTraits {
  const char* name = "";
  bool has_points = false, has_rows = false;
};
constexpr KernelTraits TraitsOf(KernelTemplate t) {
  switch (t) {
    case KernelTemplate::kElementwise:
      return {"elementwise", /*has_points=*/true, /*has_rows=*/false};
    case KernelTemplate::kRow:
      return {"row", /*has_points=*/false, /*has_rows=*/true};
  }
  return {};
}

struct KernelForm {
  KernelTemplate tmpl = KernelTemplate::kElementwise;
  /// The first loops of the kernel are P; those behind them are R, where there are rows.
  int num_outer = 0;
  /// The loop that a CPU printer puts in vector lanes: the last of R (horizontal reductions), or
  /// the last of P (each lane its own row). -1: nothing to vectorise (no loops).
  int vector_loop = -1;

  /// A work item is one point.
  bool has_points() const { return TraitsOf(tmpl).has_points; }
  /// A work item is a row of at least one loop; reductions over it are computed once.
  bool has_rows() const { return TraitsOf(tmpl).has_rows; }
  /// The form is columns.
  bool rows_in_lanes() const { return has_rows() && vector_loop < num_outer; }
};

/// The template as users and the canonical text of kernels have it: "elementwise", "row".
constexpr const char* FormName(const KernelForm& form) { return TraitsOf(form.tmpl).name; }

}  // namespace weft
