hsimd_room(report SOURCES element_table.cc report.cc TESTS report_test.cc)
