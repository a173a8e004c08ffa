# Debian packages: `cpack` in the build folder makes motley and, of the modules that were built, motley-onednn,
# motley-glpk and motley-cuda. debian.cmake puts in order what Debian's policy wants of their files.
set(CPACK_GENERATOR DEB)
# Who builds a package answers for it: by git's settings, else as this user of this host.
find_program(GIT git)
foreach(key name email)
  set(builder_${key} "")
  if(GIT)
    execute_process(COMMAND ${GIT} config user.${key} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} OUTPUT_VARIABLE builder_${key}
      OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
endforeach()
if(NOT builder_name OR NOT builder_email MATCHES "@")
  cmake_host_system_information(RESULT builder_host QUERY FQDN)
  set(builder_user "$ENV{USER}")
  if(NOT builder_user)
    set(builder_user root)
  endif()
  set(builder_name ${builder_user})
  set(builder_email ${builder_user}@${builder_host})
endif()
set(CPACK_PACKAGE_CONTACT "${builder_name} <${builder_email}>" CACHE STRING "The packages' maintainer: who builds them")
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL motley)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_SOURCE_DIR}/launcher/install/debian.cmake)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(CPACK_DEBIAN_MOTLEY_PACKAGE_NAME motley)
set(CPACK_DEBIAN_MOTLEY_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_MOTLEY_PACKAGE_DEPENDS openmpi-bin)
set(CPACK_DEBIAN_MOTLEY_PACKAGE_RECOMMENDS "motley-glpk (= ${PROJECT_VERSION}), motley-onednn (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_MOTLEY_PACKAGE_SUGGESTS "motley-cuda (= ${PROJECT_VERSION}), bible-kjv")
set(CPACK_DEBIAN_MOTLEY_DESCRIPTION "training of one model on unequal devices, by a reviewed plan
Motley measures a cluster of unequal devices, solves for how much of each
tensor every device holds and which collectives move the rest, writes the
result as a plan that a person can review, proves the plan, and runs it under
mpirun.")

# motley_package(MODULE, what its description says; its libraries are found by dpkg-shlibdeps, or given as dependencies)
function(motley_package module synopsis text shlibdeps)
  if(NOT TARGET motley_${module})
    return()
  endif()
  string(TOUPPER ${module} MODULE)
  list(APPEND CPACK_COMPONENTS_ALL ${module})
  set(CPACK_COMPONENTS_ALL ${CPACK_COMPONENTS_ALL} PARENT_SCOPE)
  set(CPACK_DEBIAN_${MODULE}_PACKAGE_NAME motley-${module} PARENT_SCOPE)
  set(CPACK_DEBIAN_${MODULE}_PACKAGE_DEPENDS "motley (= ${PROJECT_VERSION})${ARGN}" PARENT_SCOPE)
  set(CPACK_DEBIAN_${MODULE}_PACKAGE_SHLIBDEPS ${shlibdeps} PARENT_SCOPE)
  set(CPACK_DEBIAN_${MODULE}_DESCRIPTION "${synopsis}\n${text}" PARENT_SCOPE)
endfunction()
motley_package(onednn "operators of Motley on CPUs, by oneDNN"
  "The module of Motley that computes matrix products and other operators on
CPUs with oneDNN, in f32 and bf16." ON)
motley_package(glpk "solver of Motley's plans, by GLPK"
  "The module of Motley that solves linear programs with GLPK. Planning for a
cluster needs it, training does not." ON)
# CUDA, NCCL and NVIDIA's driver are not in Debian's main section, and come in packages of several names: no dependency
# names them, and the module says what it lacks when it is loaded.
motley_package(cuda "operators and collectives of Motley on NVIDIA GPUs"
  "The module of Motley that computes on NVIDIA GPUs. It needs NVIDIA's driver,
and of CUDA 12.4 or later NVRTC and cuBLASLt, and NCCL, as NVIDIA packages
them; cuDNN is used where it is installed." OFF ", libc6 (>= 2.34)")
set(CPACK_DEBIAN_CUDA_PACKAGE_SECTION contrib/science)
include(CPack)
