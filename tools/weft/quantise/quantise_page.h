/// quantise_page.h: what quantisation did to a model, as a page that stands alone.
#pragma once

#include <string>

#include "weft/runtime/quantise/quantise_model.h"

namespace weft::tool {

/// "32.4 dB", "exact", "-".
std::string Decibels(double db);
/// The outputs, a bar for each layer (what it alone loses, and what has come together until it),
/// and a table of all layers with their sizes. `title`: the model's name.
std::string QuantisePage(const std::string& title, const QuantisedModel& model);

}  // namespace weft::tool
