/// api.h: symbol visibility. Everything is hidden unless it is marked WEFT_API.
#pragma once

#define WEFT_API __attribute__((visibility("default")))
