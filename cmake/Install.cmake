# cmake --install: headers, libraries, find_package(gradus), pkg-config, and the program with its manual page.
include(CMakePackageConfigHelpers)

install(TARGETS gradus gradus_static EXPORT gradus-targets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/gradus DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h" PATTERN "*.def")
if(TARGET gd_links_header)
    install(FILES ${PROJECT_BINARY_DIR}/include/gradus/links.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/gradus)
endif()
if(TARGET gradus_cli)
    install(TARGETS gradus_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/gradus)
install(EXPORT gradus-targets NAMESPACE gradus:: DESTINATION ${package_dir})
configure_package_config_file(cmake/gradus-config.cmake.in ${PROJECT_BINARY_DIR}/gradus-config.cmake
    INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/gradus-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/gradus-config.cmake ${PROJECT_BINARY_DIR}/gradus-config-version.cmake
    DESTINATION ${package_dir})

# pkg-config: paths relative to the file, so that the installed tree may be moved.
file(RELATIVE_PATH GD_PC_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
set(GD_PC_LIBS_PRIVATE "-pthread")
foreach(library IN LISTS GD_LINK_PUBLIC)
    get_filename_component(library ${library} NAME_WE)
    string(REGEX REPLACE "^lib" "" library ${library})
    string(APPEND GD_PC_LIBS_PRIVATE " -l${library}")
endforeach()
configure_file(cmake/gradus.pc.in ${PROJECT_BINARY_DIR}/gradus.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/gradus.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# What the library is built on, for those who must know (SPDX).
include(cmake/Sbom.cmake)
install(FILES ${PROJECT_BINARY_DIR}/gradus.spdx.json DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/gradus)

install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/gradus)
if(EXISTS ${PROJECT_SOURCE_DIR}/docs/gradus.1)
    install(FILES docs/gradus.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()
if(EXISTS ${PROJECT_SOURCE_DIR}/docs/completions/gradus.bash)
    install(FILES docs/completions/gradus.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
        RENAME gradus)
    install(FILES docs/completions/gradus.zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions RENAME _gradus)
    install(FILES docs/completions/gradus.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()

# Section 3 of the manual, from the comments of the headers; without Python it is left out.
find_package(Python3 COMPONENTS Interpreter QUIET)
if(Python3_FOUND AND TARGET gd_links_header)
    file(GLOB_RECURSE documented CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/gradus/*.h)
    add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/man3.stamp
        COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tools/docs/make_api --man ${PROJECT_BINARY_DIR}/man3
            ${PROJECT_SOURCE_DIR}/include ${PROJECT_BINARY_DIR}/include
        COMMAND ${CMAKE_COMMAND} -E touch ${PROJECT_BINARY_DIR}/man3.stamp
        DEPENDS ${PROJECT_SOURCE_DIR}/tools/docs/make_api ${PROJECT_SOURCE_DIR}/tools/docs/header_docs.py ${documented} gd_links_header
        COMMENT "Section 3 of the manual" VERBATIM)
    add_custom_target(gd_manual ALL DEPENDS ${PROJECT_BINARY_DIR}/man3.stamp)
    install(DIRECTORY ${PROJECT_BINARY_DIR}/man3 DESTINATION ${CMAKE_INSTALL_MANDIR} OPTIONAL)
endif()
