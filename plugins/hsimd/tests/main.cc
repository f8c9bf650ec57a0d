/// main.cc: the one main() of all test programs of the plugin.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
