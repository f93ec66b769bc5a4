# The library.  Every object is compiled once, with default visibility, and linked three ways:
#   gradus           shared, exports gd_* only (cmake/exports.map)
#   gradus_static    libgradus.a, one object with everything but gd_* made local, private archives included
#   gradus_internal  shared, everything of ours visible: what the tests use
# Sources are found by pattern: a new file needs no change here.
file(GLOB_RECURSE sources CONFIGURE_DEPENDS src/*.c)
list(FILTER sources EXCLUDE REGEX "/src/cli/|/vec/")
# Emitted programs include the text of the element functions, those with random numbers that of the generator.
gd_embed_text(vmath_text src/base/vmath.h)
gd_embed_text(special_text src/base/vmath_special.h)
gd_embed_text(short_text src/base/math/short.h)
gd_embed_text(gamma_text src/base/math/gamma.h)
gd_embed_text(rng_text src/base/rng.h)
gd_embed_text(narrow_text src/base/narrow.h)
if(sources)
    gd_objects(gd_core ${sources} ${vmath_text} ${special_text} ${short_text} ${gamma_text} ${rng_text} ${narrow_text})
endif()

# Vector kernels, one copy for each instruction set.
file(GLOB_RECURSE vec_sources CONFIGURE_DEPENDS src/*.c)
list(FILTER vec_sources INCLUDE REGEX "/vec/")
if(vec_sources)
    gd_isa_objects(gd_vec ${vec_sources})
endif()

# Not gradus code, so outside GD_OBJECTS and its checks.
if(GD_BLAS_GLUE)
    add_library(gd_blas_glue OBJECT ${GD_BLAS_GLUE})
    set_target_properties(gd_blas_glue PROPERTIES POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET hidden)
    # bytes, for the two that ask for OpenBLAS's memory
    set_source_files_properties(${GD_BLAS_GLUE} src/tensor/cpu/blas.c PROPERTIES
        COMPILE_DEFINITIONS GD_OPENBLAS_BUFFER=${GD_OPENBLAS_BUFFER}L)
    set(gd_glue_objects $<TARGET_OBJECTS:gd_blas_glue>)
endif()

# Built-in fused programs of the common chains, also one copy for each instruction set.  gen_builtin, linked from the
# objects so far, makes the programs of the chains in builtin.def.  What is generated at build time goes into generated/.
set(GD_BUILTIN_GENERATED "")
if(sources AND (NOT CMAKE_CROSSCOMPILING OR CMAKE_CROSSCOMPILING_EMULATOR))
    get_property(gd_early_objects GLOBAL PROPERTY GD_OBJECTS)
    add_executable(gen_builtin tools/gen/gen_builtin.c ${gd_early_objects} ${gd_glue_objects})
    set_target_properties(gen_builtin PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/generated)
    target_include_directories(gen_builtin PRIVATE src)
    target_link_libraries(gen_builtin PRIVATE gd_flags gd_deps ${GD_LINK_PRIVATE} ${GD_LINK_PUBLIC} Threads::Threads)
    target_link_options(gen_builtin PRIVATE -Wl,-z,noexecstack)
    set(GD_BUILTIN_GENERATED ${PROJECT_BINARY_DIR}/generated/builtin.c)
    add_custom_command(OUTPUT ${GD_BUILTIN_GENERATED}
        COMMAND gen_builtin ${PROJECT_SOURCE_DIR}/src/optim/plan/builtin.def ${GD_BUILTIN_GENERATED}
        DEPENDS gen_builtin src/optim/plan/builtin.def
        COMMENT "Generating built-in programs"
        VERBATIM)
endif()
if(GD_BUILTIN_GENERATED)
    gd_isa_objects(gd_builtin ${GD_BUILTIN_GENERATED})
endif()

# Typed options for every link: the public header gradus/links.h is made from the links' lists of fields.
if(sources AND (NOT CMAKE_CROSSCOMPILING OR CMAKE_CROSSCOMPILING_EMULATOR))
    add_executable(gen_links tools/gen/gen_links.c ${gd_early_objects} ${gd_glue_objects})
    set_target_properties(gen_links PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/generated)
    target_link_libraries(gen_links PRIVATE gd_flags gd_deps ${GD_LINK_PRIVATE} ${GD_LINK_PUBLIC} Threads::Threads)
    target_link_options(gen_links PRIVATE -Wl,-z,noexecstack)
    file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/include/gradus)
    set(links_header ${PROJECT_BINARY_DIR}/include/gradus/links.h)
    add_custom_command(OUTPUT ${links_header}
        COMMAND gen_links > ${links_header}.part
        COMMAND ${CMAKE_COMMAND} -E rename ${links_header}.part ${links_header}
        DEPENDS gen_links
        COMMENT "Generating gradus/links.h"
        VERBATIM)
    add_custom_target(gd_links_header DEPENDS ${links_header})
elseif(sources)
    message(WARNING "Cross-compiling: gradus/links.h, the links' typed options, is not made; build once natively and copy it.")
endif()

get_property(gd_all_objects GLOBAL PROPERTY GD_OBJECTS)
if(NOT gd_all_objects)
    message(WARNING "No sources under src/ yet: nothing to build.")
    return()
endif()

# Shared libraries.
foreach(name gradus gradus_internal)
    add_library(${name} SHARED ${gd_all_objects} ${gd_glue_objects})
    set_target_properties(${name} PROPERTIES LINKER_LANGUAGE C)
    target_include_directories(${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>
        $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
    target_link_libraries(${name} PRIVATE ${GD_LINK_PRIVATE} ${GD_LINK_PUBLIC} Threads::Threads)
    if(TARGET gd_links_header)
        add_dependencies(${name} gd_links_header)
    endif()
    # OpenBLAS's assembler files do not say that they need no executable stack.
    target_link_options(${name} PRIVATE ${gd_sanitize} -Wl,--exclude-libs,ALL -Wl,-Bsymbolic-functions
        -Wl,-z,noexecstack)
    if(NOT GD_SANITIZE)
        target_link_options(${name} PRIVATE -Wl,-z,defs)
    endif()
endforeach()
target_link_options(gradus PRIVATE -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/exports.map)
set_target_properties(gradus PROPERTIES
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
    LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/exports.map)
add_library(gradus::gradus ALIAS gradus)

# gd_whole, what the program and the extension for Python are linked with: the objects, so that each runs alone; where pip installs the
# two together (python/CMakeLists.txt) one library for both, because OpenBLAS is most of their size.
add_library(gd_whole INTERFACE)
if(SKBUILD)
    add_library(gradus_whole SHARED ${gd_all_objects} ${gd_glue_objects})
    set_target_properties(gradus_whole PROPERTIES LINKER_LANGUAGE C)
    target_link_libraries(gradus_whole PRIVATE ${GD_LINK_PRIVATE} ${GD_LINK_PUBLIC} Threads::Threads)
    target_link_options(gradus_whole PRIVATE -Wl,-Bsymbolic -Wl,-z,noexecstack
        -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/whole.map)
    target_link_libraries(gd_whole INTERFACE gradus_whole ${GD_LINK_PUBLIC} Threads::Threads)
else()
    target_sources(gd_whole INTERFACE ${gd_all_objects} ${gd_glue_objects})
    target_link_libraries(gd_whole INTERFACE ${GD_LINK_PRIVATE} ${GD_LINK_PUBLIC} Threads::Threads)
endif()

# Static library: all objects and the archives they need, linked into one object.
set(merged ${PROJECT_BINARY_DIR}/gradus_merged.o)
set(archives "")
if(GD_LINK_PRIVATE)
    set(archives --start-group ${GD_LINK_PRIVATE} --end-group)
endif()
add_custom_command(OUTPUT ${merged}
    COMMAND ${CMAKE_LINKER} -r -z noexecstack -o ${merged}.all ${gd_all_objects} ${gd_glue_objects} ${archives}
    COMMAND ${CMAKE_OBJCOPY} --wildcard --keep-global-symbol=gd_[a-z]* ${merged}.all ${merged}
    COMMAND ${CMAKE_COMMAND} -E rm ${merged}.all
    DEPENDS ${gd_all_objects} ${gd_glue_objects}
    COMMENT "Linking one object for the static library"
    COMMAND_EXPAND_LISTS VERBATIM)
set_source_files_properties(${merged} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
add_library(gradus_static STATIC ${merged})
set_target_properties(gradus_static PROPERTIES OUTPUT_NAME gradus EXPORT_NAME static LINKER_LANGUAGE C)
if(TARGET gd_links_header)
    add_dependencies(gradus_static gd_links_header)
endif()
target_include_directories(gradus_static PUBLIC $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(gradus_static PUBLIC ${GD_LINK_PUBLIC} Threads::Threads)
add_library(gradus::static ALIAS gradus_static)

message(STATUS "gradus ${PROJECT_VERSION}: ${CMAKE_BUILD_TYPE}, BLAS ${GD_BLAS_KIND}, instruction sets ${GD_ISAS}")
