/// layout.h: where each element of a tensor lies: `shape/((sub, ...), ...; B@[LEVEL, ...])+offset`.
///
///   layout  := shape '/' '(' axis, ... [; 'B@[' copy, ... ']'] ')' offset*
///   axis    := '(' digit, ... ')'          a parenthesis an axis of the tensor, in its order
///   digit   := N [_LEVEL] : stride         leftmost most significant; no LEVEL: the local address
///   copy    := LEVEL | N_LEVEL:stride      replicated over all of a level, or over N places of it
///   offset  := + V [_LEVEL]                no LEVEL: of the local address
///
/// An index of an axis is written in the mixed radix of its digits; the place of an element on a
/// level, and its local address, is the offset plus the sum of digit * stride over all digits that
/// name it. A level that nothing names replicates: all its places hold the element. `Time` is a
/// level like others: the slice in which the element is there. `W` is the position in a word wider
/// than 32 bits, counted by Words. Digits of an axis may number more than its size (padding: their
/// places above the size are holes). Strides are >= 0, sizes any integers >= 1.
///
///   (4,6)/((2_PE:2, 2:3), (2_PE:1, 3:1))   a 2 x 2 split: element (i, j) on PE i/2*2 + j/3
///
/// Each operation gives the exact result, or refuses: std::nullopt where no layout says the result,
/// weft::Error (kInvalidModel, kSyntax) where the layout itself is wrong: two elements in one word,
/// an axis whose digits number less than its size, an unknown level (Validate). Sizes that leave 64
/// bits are kOverflow. Sources: notation of MN-Core's layouts; Axe (offset, partial copies).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../machine/machine.h"

namespace hsimd {

inline constexpr const char* kAddress = "";   ///< the name of the local address as a level
inline constexpr const char* kTime = "Time";  ///< slices in time
inline constexpr const char* kWide = "W";     ///< position in a wide word

/// One digit of an index, or (in Layout::copies) one digit of the number of a copy.
struct Digit {
  int64_t size = 1;
  std::string level;  ///< kAddress: the local address
  int64_t stride = 1;
  bool operator==(const Digit& o) const {
    return size == o.size && level == o.level && stride == o.stride;
  }
};

using Index = std::vector<int64_t>;
/// Coordinate by level name, the local address under kAddress; absent: 0 where the layout names the
/// level, any where it does not.
using Place = std::map<std::string, int64_t>;

struct Layout {
  std::vector<int64_t> shape;
  std::vector<std::vector<Digit>> axes;  ///< one list per axis, leftmost most significant
  /// Copies over part of a level: the element also lies at + digit * stride.
  std::vector<Digit> copies;
  std::vector<std::string> broadcast;     ///< levels said to replicate whole; as if not named
  std::map<std::string, int64_t> offset;  ///< by level; no zeros

  int64_t elements() const;
  bool operator==(const Layout& o) const {
    return shape == o.shape && axes == o.axes && copies == o.copies && broadcast == o.broadcast &&
           offset == o.offset;
  }
};

/// Throws kSyntax with line and column, and what CheckLayout throws.
Layout ParseLayout(std::string_view text);
/// ParseLayout(PrintLayout(x)) == x.
std::string PrintLayout(const Layout& layout);

/// Throws kInvalidModel unless every index has a place of its own (see above).
void CheckLayout(const Layout& layout);
/// CheckLayout, and: every level is one of the machine's at or above `level` (default: the PEs) or
/// `Time`, and no place is beyond its count. `level`: that of the memory where the tensor lies.
void Validate(const Layout& layout, const Machine& machine, int level = -1);

/// Calls for every index of a shape, the last axis fastest. Sizes are >= 1.
void ForEachIndex(const std::vector<int64_t>& shape, const std::function<void(const Index&)>& body);

/// Elements in row-major order at addresses 0, 1, ..: how a tensor lies off chip.
Layout RowMajor(const std::vector<int64_t>& shape);

/// The first place of an element; PlacesOf: of all its copies (not over whole levels).
Place PlaceOf(const Layout& layout, const Index& index);
std::vector<Place> PlacesOf(const Layout& layout, const Index& index);
/// The element at a place, nullopt where there is none.
std::optional<Index> IndexAt(const Layout& layout, const Place& place);

/// Largest coordinate of a level + 1, counting padding as the digits stand; 1 where not named.
int64_t Extent(const Layout& layout, const std::string& level);
/// Words of 32 bits in each place, offset and padding included: Extent of address x of W.
int64_t Words(const Layout& layout);
bool Names(const Layout& layout, const std::string& level);
/// `W` folded into the local address: strides of addresses grow by the extent of W.
Layout FoldWide(const Layout& layout);

/// Two layouts put every element in the same places if and only if their canonical forms print
/// equally. Padding that no element reaches, and `broadcast`, are left out. With a machine: every
/// level at or above `level` that nothing names is in `broadcast`.
Layout Canonical(const Layout& layout);
Layout Canonical(const Layout& layout, const Machine& machine, int level = -1);
bool SameMap(const Layout& a, const Layout& b);

/// Digit `digit` of an axis as two, the right one of size `inner`; nullopt if `inner` does not
/// divide it. The map stays.
std::optional<Layout> Split(const Layout& layout, int axis, int digit, int64_t inner);
/// element i lies where `outer` has the element whose row-major number is inner's local address of
/// i. `inner` names the local address alone; nullopt where no digits say the result.
std::optional<Layout> Compose(const Layout& outer, const Layout& inner);
/// The layout of a shape whose places a function gives (every element in one place; `Place`s of
/// equal keys), nullopt where no digits say it. Evaluates all elements.
std::optional<Layout> FitLayout(const std::vector<int64_t>& shape,
                                const std::function<Place(const Index&)>& place_of);

/// Views: the words stay where they are.
std::optional<Layout> Reshape(const Layout& layout, const std::vector<int64_t>& shape);
Layout Transpose(const Layout& layout, const std::vector<int>& permutation);
/// Elements start, start + step, .. (size of them) of an axis; step >= 1.
std::optional<Layout> Slice(const Layout& layout, int axis, int64_t start, int64_t size,
                            int64_t step = 1);
/// An axis of size 1 as `size`: its digits are taken from `copies` (first that fits).
std::optional<Layout> Expand(const Layout& layout, int axis, int64_t size);
/// Inverse of Expand: what an operand of size 1 along `axis` needs so that each place of `layout`
/// has it (or more): the axis' digits on levels become copies, those of the address vanish.
Layout Unexpand(const Layout& layout, int axis);
/// Local addresses without gaps and offset: strides renumbered in their order.
Layout Compact(const Layout& layout);
/// Without an axis of size 1 / with one more.
Layout Squeeze(const Layout& layout, int axis);
Layout Unsqueeze(const Layout& layout, int axis);

/// The places of `b` are a sum over the digits of `a`: each digit of b is made of whole digits of
/// a.
bool Refines(const Layout& a, const Layout& b);
/// Wherever `b` wants an element, `a` has it (a's copies are b's or more): no move is needed. False
/// also where it cannot be told (over 2^20 elements whose digits do not fit).
bool Satisfies(const Layout& a, const Layout& b);
/// Both with digits of equal sizes, the coarsest; nullopt where their radices do not fit.
std::optional<std::pair<Layout, Layout>> CommonRefinement(const Layout& a, const Layout& b);

}  // namespace hsimd
