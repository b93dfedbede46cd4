# Writes OUTPUT, a C++ file with the text of each of SOURCES. Called by export/CMakeLists.txt.
list(SORT SOURCES)
set(text "// Made by export/embed_kernels.cmake.\n#include \"export/kernel_texts.h\"\n\n")
string(APPEND text "namespace elastiq {\n\nstd::vector<KernelText> kernel_texts() {\n  return {\n")
foreach(source IN LISTS SOURCES)
  get_filename_component(name "${source}" NAME)
  # Bytes as hexadecimal: file(READ) as text would eat brackets, semicolons and backslashes.
  file(READ "${source}" hex HEX)
  string(REGEX REPLACE "(..)" "\\\\x\\1" escaped "${hex}")
  # One literal per line of the source keeps lines short; \x0a ends a line.
  string(REPLACE "\\x0a" "\\x0a\"\n\"" escaped "${escaped}")
  string(APPEND text "{\"${name}\", std::string_view(\n\"${escaped}\")},\n")
endforeach()
string(APPEND text "  };\n}\n\n}  // namespace elastiq\n")
file(WRITE "${OUTPUT}" "${text}")
