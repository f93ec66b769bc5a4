# gradus.spdx.json: gradus and what is linked into it or loaded by it, with the versions that were found (SPDX 2.3).
set(gd_sbom_packages "")
set(gd_sbom_relations "")

# gd_sbom_package(NAME VERSION LICENSE RELATION): RELATION as in SPDX, from gradus, or to it where it ends in _OF.
function(gd_sbom_package name version license relation)
    if(NOT version)
        set(version NOASSERTION)
    endif()
    string(APPEND gd_sbom_packages ",
    {\"SPDXID\": \"SPDXRef-${name}\", \"name\": \"${name}\", \"versionInfo\": \"${version}\", \"downloadLocation\": \"NOASSERTION\",
     \"filesAnalyzed\": false, \"licenseConcluded\": \"${license}\", \"licenseDeclared\": \"${license}\", \"copyrightText\": \"NOASSERTION\"}")
    set(ends gradus ${name})
    if(relation MATCHES "_OF$")
        list(REVERSE ends)
    endif()
    list(GET ends 0 from)
    list(GET ends 1 to)
    string(APPEND gd_sbom_relations ",
    {\"spdxElementId\": \"SPDXRef-${from}\", \"relationshipType\": \"${relation}\", \"relatedSpdxElement\": \"SPDXRef-${to}\"}")
    set(gd_sbom_packages "${gd_sbom_packages}" PARENT_SCOPE)
    set(gd_sbom_relations "${gd_sbom_relations}" PARENT_SCOPE)
endfunction()

# gd_sbom_link(RESULT FILE): how a library is linked in, by its file.
function(gd_sbom_link result file)
    set(${result} DYNAMIC_LINK PARENT_SCOPE)
    if(file IN_LIST GD_LINK_PRIVATE)
        set(${result} STATIC_LINK PARENT_SCOPE)
    endif()
endfunction()

gd_sbom_link(link "${GD_JANSSON_STATIC}")
gd_sbom_package(jansson "${JANSSON_VERSION}" MIT ${link})
if(NOT GD_BLAS_KIND STREQUAL "none")
    pkg_check_modules(GD_SBOM_OPENBLAS QUIET openblas)
    pkg_check_modules(GD_SBOM_LAPACKE QUIET lapacke)
    gd_sbom_link(link "${GD_OPENBLAS_STATIC}")
    gd_sbom_package(openblas "${GD_SBOM_OPENBLAS_VERSION}" BSD-3-Clause ${link})
    gd_sbom_package(lapacke "${GD_SBOM_LAPACKE_VERSION}" BSD-3-Clause ${link})
endif()
if(ZLIB_FOUND)
    gd_sbom_package(zlib "${ZLIB_VERSION_STRING}" Zlib DYNAMIC_LINK)
endif()
if(TARGET gradus_mpi)
    gd_sbom_package(mpi "${MPI_C_VERSION}" NOASSERTION OPTIONAL_DEPENDENCY_OF)
endif()
if(TARGET gradus_cuda)
    gd_sbom_package(cuda "" NOASSERTION OPTIONAL_DEPENDENCY_OF)
endif()

# The same sources give the same file: the time is that of the release where there is one.
if(DEFINED ENV{SOURCE_DATE_EPOCH})
    string(TIMESTAMP gd_sbom_created UTC)
else()
    set(gd_sbom_created 1970-01-01T00:00:00Z)
endif()
configure_file(cmake/gradus.spdx.json.in ${PROJECT_BINARY_DIR}/gradus.spdx.json @ONLY)
