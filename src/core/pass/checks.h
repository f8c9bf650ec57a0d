/// checks.h: the checks of what passes claim (see Checks in pass.h). Private to the pass manager.
#pragma once

#include "weft/core/pass/pass.h"

namespace weft {

/// Hash of everything but attribute maps: nodes, attributes, edges, outputs, names.
uint64_t GraphFingerprint(const Graph& graph);

/// `set_change_graph(false)` against the fingerprints.
void CheckUnchanged(const PassEntry& pass, uint64_t before, const Graph& after);
/// Promised attributes are there.
void CheckProvides(const PassEntry& pass, const Graph& after);
/// Attributes that survived the pass equal recomputed ones: those it claims to preserve,
/// and `shape` and `dtype`.
void CheckPreserved(const PassEntry& pass, const Graph& after, const PassOptions& options);
/// Second run gives the same text.
void CheckDeterministic(const PassEntry& pass, const Graph& first, const Graph& second);
/// Outputs on random inputs, through the Evaluator.
void CheckEquivalent(const PassEntry& pass, const Graph& before, const Graph& after,
                     const Checks& checks);

}  // namespace weft
