/* no_entry.c: a shared library that is no plugin. */
int weft_test_nothing(void) { return 0; }
