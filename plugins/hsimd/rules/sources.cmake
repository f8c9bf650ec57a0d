hsimd_room(rules SOURCES across.cc axes.cc body.cc candidates.cc lowering.cc points.cc product.cc rule.cc
  stream_product.cc
  TESTS rules_test.cc stream_product_test.cc)
