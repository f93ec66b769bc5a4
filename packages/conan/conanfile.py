"""gradus for Conan 2: conan create packages/conan --no-remote

OpenBLAS with LAPACKE, jansson and zlib are those of the system (Debian: libopenblas-pthread-dev liblapacke-dev libjansson-dev zlib1g-dev)."""
import os
import re

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load


class Gradus(ConanFile):
    name = "gradus"
    license = "MIT"
    description = "Labelled tensors, autograd and composable optimizers in C"
    topics = ("optimization", "autodiff", "curve-fitting", "machine-learning")
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "blas": [True, False]}
    default_options = {"shared": False, "blas": True}
    package_type = "library"
    languages = "C"

    @property
    def tree(self):
        return os.path.join(self.recipe_folder, "..", "..")

    def set_version(self):
        header = load(self, os.path.join(self.tree, "include", "gradus", "version.h"))
        self.version = ".".join(re.search(rf"GD_VERSION_{part}\s+(\d+)", header)[1] for part in ("MAJOR", "MINOR", "PATCH"))

    def export_sources(self):
        for folder in ("backends", "bench", "cmake", "docs", "include", "src", "tools"):
            copy(self, "*", os.path.join(self.tree, folder), os.path.join(self.export_sources_folder, folder))
        for file in ("CMakeLists.txt", "LICENSE"):
            copy(self, file, self.tree, self.export_sources_folder)

    def layout(self):
        cmake_layout(self)

    def validate(self):
        if self.settings.os != "Linux":
            from conan.errors import ConanInvalidConfiguration

            raise ConanInvalidConfiguration("gradus is built on Linux only")

    def generate(self):
        toolchain = CMakeToolchain(self, generator="Ninja")
        toolchain.cache_variables.update(GD_TESTS=False, GD_PYTHON=False, GD_WERROR=False, GD_BLAS="REQUIRED" if self.options.blas else False)
        toolchain.generate()
        CMakeDeps(self).generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))

    def package_info(self):
        # both libraries are there: find_package(gradus) of the package itself offers gradus::gradus and gradus::static
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = [os.path.join("lib", "cmake", "gradus")]
        self.cpp_info.libs = ["gradus"] if self.options.shared else [":libgradus.a"]
        self.cpp_info.system_libs = ["m", "dl", "pthread", "jansson", "z"]
