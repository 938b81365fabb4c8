# cmake -DOUT=f.cpp -DHEADER=… -DFUNCTION=name "-DFILES=a;b" -P EmbedFiles.cmake
# Writes a source that defines FUNCTION(): a map from file name to file text.
set(text "#include \"${HEADER}\"\n\nnamespace m3c {\n\nconst std::map<std::string, std::string> &${FUNCTION}() {\n  static const std::map<std::string, std::string> files = {\n")
foreach(file ${FILES})
  get_filename_component(name ${file} NAME)
  file(READ ${file} content)
  string(APPEND text "      {\"${name}\", R\"m3file(${content})m3file\"},\n")
endforeach()
string(APPEND text "  };\n  return files;\n}\n\n} // namespace m3c\n")
file(WRITE ${OUT} "${text}")
