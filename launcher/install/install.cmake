# What is installed: the program, its modules, where it looks for them (../lib/motley), the manual and completions, which
# motley_pages makes of the tables that the program itself reads its flags by, and examples.
# Components: motley; onednn, glpk and cuda for the modules.
include(GNUInstallDirs)
add_executable(motley_pages launcher/install/main.c)
target_link_libraries(motley_pages PRIVATE mt_launcher)
if(MOTLEY_SANITIZE)
  target_link_libraries(motley_pages PRIVATE sanitized)
endif()
string(TIMESTAMP today "%Y-%m-%d" UTC) # of $SOURCE_DATE_EPOCH, if there is one
set(pages ${CMAKE_BINARY_DIR}/share)
add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/pages.stamp
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${pages}
  COMMAND ${CMAKE_COMMAND} -E env ASAN_OPTIONS=detect_leaks=0 $<TARGET_FILE:motley_pages> ${today} ${pages}
  COMMAND ${CMAKE_COMMAND} -E touch ${CMAKE_BINARY_DIR}/pages.stamp
  DEPENDS motley_pages VERBATIM)
add_custom_target(pages ALL DEPENDS ${CMAKE_BINARY_DIR}/pages.stamp)

install(TARGETS motley COMPONENT motley)
foreach(module onednn glpk cuda)
  if(TARGET motley_${module})
    install(TARGETS motley_${module} LIBRARY DESTINATION lib/motley COMPONENT ${module})
  endif()
endforeach()
install(DIRECTORY ${pages}/ DESTINATION ${CMAKE_INSTALL_DATADIR} COMPONENT motley)
install(FILES README.md LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/motley COMPONENT motley)
install(PROGRAMS examples/quickstart.sh examples/finetune.sh
  DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/motley/examples COMPONENT motley)
install(DIRECTORY examples/llama-tiny DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/motley/examples COMPONENT motley)
