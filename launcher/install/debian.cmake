# Run by cpack before it makes the packages: copyright and changelog of each, compressed manual, zsh's folder for what
# packages install, no paths of libraries.
find_program(GZIP gzip REQUIRED)
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC) # of $SOURCE_DATE_EPOCH, if there is one
foreach(component ${CPACK_COMPONENTS_ALL})
  string(TOUPPER ${component} COMPONENT)
  set(package ${CPACK_DEBIAN_${COMPONENT}_PACKAGE_NAME})
  set(share ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/${component}/usr/share)
  set(doc ${share}/doc/${package})
  file(WRITE ${doc}/copyright
"Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: Motley

Files: *
Copyright: 2026 Motley's authors
License: GPL-3+
 This program is free software: you can redistribute it and/or modify it under the terms of the GNU General Public
 License as published by the Free Software Foundation, either version 3 of the License, or (at your option) any later
 version.
 .
 On Debian systems, the full text of the GNU General Public License version 3 is in
 /usr/share/common-licenses/GPL-3.
")
  file(WRITE ${doc}/changelog
"motley (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium

  * Version ${CPACK_PACKAGE_VERSION}, as it was built from source.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")
  file(REMOVE ${doc}/LICENSE) # is what copyright refers to
  file(GLOB compressed ${share}/man/man1/*.1 ${doc}/changelog)
  execute_process(COMMAND ${GZIP} -9nf ${compressed} COMMAND_ERROR_IS_FATAL ANY)
  if(EXISTS ${share}/zsh/site-functions)
    file(RENAME ${share}/zsh/site-functions ${share}/zsh/vendor-completions)
  endif()
  file(GLOB binaries ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/${component}/usr/bin/*
    ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/${component}/usr/lib/motley/*)
  foreach(binary ${binaries})
    file(RPATH_REMOVE FILE ${binary})
  endforeach()
endforeach()
