# An overlay port that builds the tree it lies in: vcpkg install gradus --overlay-ports=packages/vcpkg
# Without BLAS: vcpkg's OpenBLAS has no LAPACK, and LAPACKE takes a Fortran compiler.
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

vcpkg_cmake_configure(
    SOURCE_PATH "${SOURCE_PATH}"
    OPTIONS
        -DGD_BLAS=OFF
        -DGD_TESTS=OFF
        -DGD_PYTHON=OFF
        -DGD_WERROR=OFF
        -DGD_CUDA=OFF
        -DGD_MPI=OFF
        -DGD_STATIC_DEPS=OFF
)
vcpkg_cmake_install()
vcpkg_copy_pdbs()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/gradus)
vcpkg_fixup_pkgconfig()
vcpkg_copy_tools(TOOL_NAMES gradus AUTO_CLEAN)
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")

file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
