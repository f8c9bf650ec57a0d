/// hostile_parts.h: the parts of the table of hostile models.
#pragma once

#include "hostile_models.h"

namespace weft::safety {

void AddFiles(std::vector<HostileModel>* table);      ///< external data
void AddFunctions(std::vector<HostileModel>* table);  ///< model-local functions

}  // namespace weft::safety
