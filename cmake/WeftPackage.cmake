# WeftPackage.cmake: install, find_package(Weft), pkg-config and the Debian package.

include(CMakePackageConfigHelpers)

set(weft_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Weft)
install(TARGETS weft EXPORT WeftTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT dev
  FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev)
install(EXPORT WeftTargets NAMESPACE Weft:: DESTINATION ${weft_cmake_dir} COMPONENT dev)

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/WeftConfig.cmake.in
  ${PROJECT_BINARY_DIR}/WeftConfig.cmake INSTALL_DESTINATION ${weft_cmake_dir})
# Before 1.0 a minor version may break what the one before it offered.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/WeftConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/WeftConfig.cmake
  ${PROJECT_BINARY_DIR}/WeftConfigVersion.cmake
  ${PROJECT_SOURCE_DIR}/cmake/WeftPlugin.cmake
  ${PROJECT_SOURCE_DIR}/cmake/plugin_entry.cc.in
  DESTINATION ${weft_cmake_dir} COMPONENT dev)

# Relative to the file itself: the prefix is chosen when it is installed (cmake --install --prefix, CPack), not here.
# cmake_path(APPEND) lets a folder that is absolute stand as it is.
if(IS_ABSOLUTE ${CMAKE_INSTALL_LIBDIR})
  set(weft_pc_prefix ${CMAKE_INSTALL_PREFIX})
else()
  file(RELATIVE_PATH weft_pc_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
  string(REGEX REPLACE "/$" "" weft_pc_prefix "\${pcfiledir}/${weft_pc_prefix}")
endif()
cmake_path(APPEND weft_pc_libdir "\${prefix}" ${CMAKE_INSTALL_LIBDIR})
cmake_path(APPEND weft_pc_includedir "\${prefix}" ${CMAKE_INSTALL_INCLUDEDIR})
configure_file(${PROJECT_SOURCE_DIR}/cmake/weft.pc.in ${PROJECT_BINARY_DIR}/weft.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/weft.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)

# The terms, in every way to install: what may be done with Weft, and with what is compiled into it.
install(FILES
  ${PROJECT_SOURCE_DIR}/LICENSE
  ${PROJECT_SOURCE_DIR}/NOTICE
  ${PROJECT_SOURCE_DIR}/THIRD_PARTY.md
  ${PROJECT_SOURCE_DIR}/CHANGELOG.md
  DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/weft COMPONENT runtime)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME weft)
set(CPACK_PACKAGE_CONTACT "Weft developers <weft@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/lib)
# What public headers may include: weft/op_param.h needs dmlc, weft/support/check.h needs fmt.
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "libdmlc-dev, libfmt-dev")
# Two packages: Weft, and its Python package for Debian's own Python.
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_DEBIAN_WEFT_PACKAGE_NAME weft)
set(CPACK_DEBIAN_PYTHON_PACKAGE_NAME python3-weft)
set(CPACK_DEBIAN_PYTHON_PACKAGE_SECTION python)
set(CPACK_DEBIAN_PYTHON_DESCRIPTION "${PROJECT_DESCRIPTION} (Python 3)")
set(CPACK_DEBIAN_PYTHON_PACKAGE_RECOMMENDS "")
if(WEFT_HAVE_PYTHON)
  string(REPLACE "." ";" version ${Python_VERSION})
  list(GET version 1 minor)
  math(EXPR next "${minor} + 1")
  set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS
    "weft (= ${PROJECT_VERSION}), python3 (>= 3.${minor}), python3 (<< 3.${next}), python3-numpy")
endif()
include(CPack)
cpack_add_component_group(weft)
foreach(component IN ITEMS runtime dev Unspecified)
  cpack_add_component(${component} GROUP weft)
endforeach()
if(WEFT_HAVE_PYTHON)
  cpack_add_component_group(python)
  cpack_add_component(python GROUP python)
endif()
