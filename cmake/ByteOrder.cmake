# Files have the byte order of memory, and kernels access halves of numbers: little-endian only.
if(CMAKE_C_BYTE_ORDER STREQUAL "BIG_ENDIAN")
    message(FATAL_ERROR "gradus runs on little-endian processors; this compiler is for a big-endian one")
endif()
