# Flags that every C file of the project is compiled with.
add_library(gd_flags INTERFACE)
target_compile_options(gd_flags INTERFACE
    -Wall -Wextra -Wpedantic -Wconversion -Wshadow
    $<$<BOOL:${GD_WERROR}>:-Werror>
    # Values: no fused or reordered operations; errno and traps are not part of the contract.
    -ffp-contract=off -fno-math-errno -fno-trapping-math
    -fno-semantic-interposition)
target_include_directories(gd_flags INTERFACE ${PROJECT_SOURCE_DIR}/include)
# Steps of optimizers verify the change counters.
target_compile_definitions(gd_flags INTERFACE $<$<CONFIG:Debug>:GD_ALWAYS_LOOK=1>)

if(GD_SANITIZE)
    set(gd_sanitize -fsanitize=${GD_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_compile_options(gd_flags INTERFACE ${gd_sanitize} -O1)
    target_link_options(gd_flags INTERFACE ${gd_sanitize})
endif()

# Kernels: -O3 unless debugging or sanitizing.
if(GD_SANITIZE OR CMAKE_BUILD_TYPE STREQUAL "Debug")
    set(GD_KERNEL_FLAGS "")
else()
    set(GD_KERNEL_FLAGS -O3)
endif()

set(GD_ISAS base)
set(GD_ISA_FLAGS_base "")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
    list(APPEND GD_ISAS avx2 avx512)
    set(GD_ISA_FLAGS_avx2 -mavx2 -mfma -mf16c)
    set(GD_ISA_FLAGS_avx512 -mavx512f -mavx512dq -mavx512vl -mavx512bw -mavx2 -mfma -mf16c
        -mprefer-vector-width=512)
    target_compile_definitions(gd_flags INTERFACE GD_HAVE_AVX2=1 GD_HAVE_AVX512=1)
    # Small structs are cleared by stores: the string instruction that gcc prefers takes longer to start than they do.
    target_compile_options(gd_flags INTERFACE
        $<$<C_COMPILER_ID:GNU>:-mmemset-strategy=unrolled_loop:512:noalign,libcall:-1:noalign>)
endif()

# gd_objects(NAME SOURCES...): one position-independent object library of gradus code, added to GD_OBJECTS.
function(gd_objects name)
    add_library(${name} OBJECT ${ARGN})
    set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_BINARY_DIR}/generated)
    target_link_libraries(${name} PRIVATE gd_flags gd_deps)
    set_property(GLOBAL APPEND PROPERTY GD_OBJECTS $<TARGET_OBJECTS:${name}>)
endfunction()

# gd_isa_objects(PREFIX SOURCES...): the sources compiled once for each instruction set, with -DGD_ISA=base|avx2|avx512.
# A source pastes GD_ISA into the names of what it defines.
function(gd_isa_objects prefix)
    foreach(isa IN LISTS GD_ISAS)
        gd_objects(${prefix}_${isa} ${ARGN})
        target_compile_definitions(${prefix}_${isa} PRIVATE GD_ISA=${isa})
        target_compile_options(${prefix}_${isa} PRIVATE ${GD_KERNEL_FLAGS} ${GD_ISA_FLAGS_${isa}})
        if(GD_FUZZ) # loops over elements do not depend on the input, and recording them takes nine tenths of the fuzzers' time
            target_compile_options(${prefix}_${isa} PRIVATE -fno-sanitize=fuzzer-no-link)
        endif()
    endforeach()
endfunction()

# gd_embed_text(NAME FILE): a header generated/NAME.h with the lines of FILE, in the variable NAME.
function(gd_embed_text name file)
    get_filename_component(input ${file} ABSOLUTE)
    set(header ${PROJECT_BINARY_DIR}/generated/${name}.h)
    add_custom_command(OUTPUT ${header}
        COMMAND ${CMAKE_COMMAND} -DINPUT=${input} -DOUTPUT=${header} -DNAME=${name}
            -P ${PROJECT_SOURCE_DIR}/cmake/EmbedText.cmake
        DEPENDS ${input} ${PROJECT_SOURCE_DIR}/cmake/EmbedText.cmake
        VERBATIM)
    set(${name} ${header} PARENT_SCOPE)
endfunction()
