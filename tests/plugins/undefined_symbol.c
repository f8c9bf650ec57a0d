/* undefined_symbol.c: needs a function that nobody has. */
int weft_test_missing(void);
int weft_plugin_init_v1(const void* host, void* info) {
  return host == info ? 0 : weft_test_missing();
}
