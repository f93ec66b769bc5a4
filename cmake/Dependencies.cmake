# Dependencies of gradus. Fills the interface target gd_deps (compile side) and the lists
#   GD_LINK_PRIVATE  archives that go into libgradus and are hidden there
#   GD_LINK_PUBLIC   shared libraries a user of the static library must link as well
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)

add_library(gd_deps INTERFACE)
set(GD_LINK_PRIVATE "")
set(GD_LINK_PUBLIC m ${CMAKE_DL_LIBS})
set(GD_BLAS_GLUE "")

# jansson
pkg_check_modules(JANSSON REQUIRED jansson)
target_include_directories(gd_deps SYSTEM INTERFACE ${JANSSON_INCLUDE_DIRS})
find_library(GD_JANSSON_STATIC NAMES libjansson.a HINTS ${JANSSON_LIBRARY_DIRS})
find_library(GD_JANSSON_SHARED NAMES jansson HINTS ${JANSSON_LIBRARY_DIRS})
mark_as_advanced(GD_JANSSON_STATIC GD_JANSSON_SHARED)
# Debian's archive is not position independent: a shared libgradus links the shared jansson.
if(GD_STATIC_DEPS AND GD_JANSSON_STATIC AND GD_JANSSON_PIC)
    list(APPEND GD_LINK_PRIVATE ${GD_JANSSON_STATIC})
else()
    list(APPEND GD_LINK_PUBLIC ${GD_JANSSON_SHARED})
endif()

# BLAS and LAPACK.  Best: the static pthread build of OpenBLAS, made single-threaded by openblas_glue.c.  Otherwise the
# shared one, provided that it may be called from several threads at once (a sequential build may not).
set(GD_BLAS_KIND "none")
if(GD_BLAS)
    set(multiarch ${CMAKE_LIBRARY_ARCHITECTURE})
    find_path(GD_CBLAS_INCLUDE cblas.h PATH_SUFFIXES ${multiarch}/openblas-pthread openblas-pthread openblas)
    find_path(GD_LAPACKE_INCLUDE lapacke.h PATH_SUFFIXES lapacke openblas)
    find_library(GD_OPENBLAS_STATIC NAMES libopenblas.a
        PATH_SUFFIXES ${multiarch}/openblas-pthread openblas-pthread)
    find_library(GD_LAPACKE_STATIC NAMES liblapacke.a)
    find_library(GD_OPENBLAS_SHARED NAMES openblas PATH_SUFFIXES ${multiarch}/openblas-pthread openblas-pthread)
    find_library(GD_LAPACKE_SHARED NAMES lapacke)
    mark_as_advanced(GD_CBLAS_INCLUDE GD_LAPACKE_INCLUDE GD_OPENBLAS_STATIC GD_LAPACKE_STATIC GD_OPENBLAS_SHARED
        GD_LAPACKE_SHARED)
    set(gd_blas_includes ${GD_CBLAS_INCLUDE} ${GD_LAPACKE_INCLUDE})

    # gd_try_blas(RESULT SOURCES... LIBS ... DEFINES ...): RESULT is what openblas_check printed, or NOTFOUND.
    function(gd_try_blas result)
        cmake_parse_arguments(ARG "" "" "SOURCES;LIBS;DEFINES" ${ARGN})
        if(NOT DEFINED ${result})
            try_run(ran built ${PROJECT_BINARY_DIR}/try_${result}
                SOURCES ${PROJECT_SOURCE_DIR}/cmake/openblas_check.c ${ARG_SOURCES}
                CMAKE_FLAGS "-DINCLUDE_DIRECTORIES=${gd_blas_includes}"
                COMPILE_DEFINITIONS ${ARG_DEFINES}
                LINK_LIBRARIES ${ARG_LIBS} Threads::Threads m
                COMPILE_OUTPUT_VARIABLE built_output
                RUN_OUTPUT_VARIABLE output)
            if(built AND ran EQUAL 0)
                set(${result} "${output}" CACHE INTERNAL "")
            else()
                message(VERBOSE "${result}: built ${built}, ran ${ran}: ${built_output}")
                set(${result} "NOTFOUND" PARENT_SCOPE)
            endif()
        endif()
    endfunction()

    set(glue ${PROJECT_SOURCE_DIR}/cmake/openblas_glue.c)
    if(GD_CBLAS_INCLUDE AND GD_LAPACKE_INCLUDE)
        if(GD_STATIC_DEPS AND GD_OPENBLAS_STATIC AND GD_LAPACKE_STATIC)
            gd_try_blas(GD_BLAS_TRY_ARCHIVE SOURCES ${glue} LIBS ${GD_LAPACKE_STATIC} ${GD_OPENBLAS_STATIC}
                DEFINES -DGD_CHECK_STATIC)
        endif()
        # bytes of a buffer;kind
        if(GD_BLAS_TRY_ARCHIVE MATCHES "^([0-9]+);1$")
            set(GD_BLAS_KIND "static")
            set(GD_OPENBLAS_BUFFER ${CMAKE_MATCH_1})
        elseif(GD_OPENBLAS_SHARED AND GD_LAPACKE_SHARED)
            gd_try_blas(GD_BLAS_TRY_SHARED LIBS ${GD_LAPACKE_SHARED} ${GD_OPENBLAS_SHARED})
            if(GD_BLAS_TRY_SHARED GREATER 0)
                set(GD_BLAS_KIND "shared")
            endif()
        endif()
    endif()
    if(GD_BLAS_KIND STREQUAL "none")
        set(why "no OpenBLAS of threads with LAPACKE that works (Debian: libopenblas-pthread-dev, liblapacke-dev; the sequential one cannot be called from several threads)")
        if(GD_BLAS STREQUAL "REQUIRED")
            message(FATAL_ERROR "gradus: ${why}.  -DGD_BLAS=OFF does without.")
        endif()
        message(STATUS "gradus: ${why}: products and factorisations by our own kernels, which are slower")
    endif()
endif()
if(NOT GD_BLAS_KIND STREQUAL "none")
    target_include_directories(gd_deps SYSTEM INTERFACE ${gd_blas_includes})
    target_compile_definitions(gd_deps INTERFACE GD_HAVE_BLAS=1)
    if(GD_BLAS_KIND STREQUAL "static")
        list(APPEND GD_LINK_PRIVATE ${GD_LAPACKE_STATIC} ${GD_OPENBLAS_STATIC})
        set(GD_BLAS_GLUE ${glue})
    else()
        # The shared OpenBLAS has threads of its own: the library must call openblas_set_num_threads(1).
        target_compile_definitions(gd_deps INTERFACE GD_BLAS_SHARED=1)
        list(APPEND GD_LINK_PUBLIC ${GD_LAPACKE_SHARED} ${GD_OPENBLAS_SHARED})
    endif()
endif()

# zlib, for gzip and zip files and for PNG
find_package(ZLIB QUIET)
if(ZLIB_FOUND)
    target_include_directories(gd_deps SYSTEM INTERFACE ${ZLIB_INCLUDE_DIRS})
    target_compile_definitions(gd_deps INTERFACE GD_HAVE_ZLIB=1)
    list(APPEND GD_LINK_PUBLIC ${ZLIB_LIBRARIES})
endif()
