/// resolve.h: what declarations of passes say before anything runs: who provides an attribute, with
/// which options a pass is called. ResolvePipeline (weft/core/pass/pass.h) is the whole of it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "weft/core/pass/pass.h"

namespace weft {

bool Contains(const std::vector<std::string>& v, const std::string& s);

/// Passes that provide `attr`, by name.
std::vector<const PassEntry*> ProvidersOf(std::string_view attr);
/// The one that runs, of the passes that provide `attr`: the highest plevel; a tie names the
/// candidates.
const PassEntry& BestOf(const std::vector<const PassEntry*>& providers, const std::string& attr,
                        const std::string& needed_by);

using OptionValues = std::map<std::string, OptionValue, std::less<>>;
/// Options of one call, checked against the declaration.
OptionValues ResolveOptions(const PassEntry& pass, const std::vector<Option>& given);

}  // namespace weft
