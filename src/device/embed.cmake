# Writes OUTPUT, a C++ source that defines the text of INPUT as spyre::device::builtin_json().
file(READ ${INPUT} text)
file(WRITE ${OUTPUT}.new "#include \"device/builtin.h\"\n\nnamespace spyre::device {\n\nstd::string_view builtin_json() {\n  return R\"SPYRE_JSON(${text})SPYRE_JSON\";\n}\n\n}  // namespace spyre::device\n")
file(RENAME ${OUTPUT}.new ${OUTPUT})
