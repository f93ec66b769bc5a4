# Optional dependencies may be installed incompletely: a header without those that it includes, a compiler wrapper without the headers.  Whether one
# is there is tested by compiling.

# gd_part_works(RESULT TEXT... INCLUDES ... LIBS ...): RESULT is true where a program of these lines compiles, with LIBS also links.
# A failed test is repeated when configuring again, because the package may have been installed.
function(gd_part_works result)
    cmake_parse_arguments(ARG "" "" "TEXT;INCLUDES;LIBS" ${ARGN})
    if(NOT ${result})
        unset(${result} CACHE)
        list(JOIN ARG_TEXT "\n" text)
        if(NOT ARG_LIBS)
            set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY) # nothing is linked
        endif()
        try_compile(${result} SOURCE_FROM_CONTENT part.c "${text}\nint main(void) { return 0; }\n"
            CMAKE_FLAGS "-DINCLUDE_DIRECTORIES=${ARG_INCLUDES}"
            LINK_LIBRARIES ${ARG_LIBS}
            OUTPUT_VARIABLE output)
        if(NOT ${result})
            message(VERBOSE "${result}: ${output}")
        endif()
    endif()
    set(${result} ${${result}} PARENT_SCOPE)
endfunction()

# gd_mpi_wrapper_works(RESULT): false where there is a compiler wrapper of MPI that cannot compile a program of MPI.  find_package(MPI)
# stops configuring then: the wrapper names folders that are not there (Debian's openmpi-bin without libopenmpi-dev).
function(gd_mpi_wrapper_works result)
    set(${result} TRUE PARENT_SCOPE)
    set(wrapper ${MPI_C_COMPILER})
    if(NOT wrapper)
        find_program(GD_MPICC NAMES mpicc mpicc.openmpi mpicc.mpich HINTS ${MPI_HOME} ENV MPI_HOME PATH_SUFFIXES bin)
        mark_as_advanced(GD_MPICC)
        set(wrapper ${GD_MPICC})
    endif()
    if(CMAKE_CROSSCOMPILING OR NOT wrapper)
        return()
    endif()
    set(folder ${PROJECT_BINARY_DIR}/try_mpi)
    file(WRITE ${folder}/part.c "#include <mpi.h>\nint main(void) { return MPI_Init(0, 0); }\n")
    execute_process(COMMAND ${CMAKE_COMMAND} -E env OMPI_CC=${CMAKE_C_COMPILER} MPICH_CC=${CMAKE_C_COMPILER}
            I_MPI_CC=${CMAKE_C_COMPILER} ${wrapper} -o ${folder}/part ${folder}/part.c
        RESULT_VARIABLE failed OUTPUT_VARIABLE output ERROR_VARIABLE output)
    if(NOT failed EQUAL 0)
        message(VERBOSE "${wrapper}: ${output}")
        set(${result} FALSE PARENT_SCOPE)
    endif()
endfunction()
