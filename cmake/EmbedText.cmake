# cmake -DINPUT=file -DOUTPUT=file.h -DNAME=array -P EmbedText.cmake
# Writes a C header with the lines of a text file, as NULL-terminated `static const char *const NAME[]`.
file(READ "${INPUT}" text)
string(REPLACE "\\" "\\\\" text "${text}")
string(REPLACE "\"" "\\\"" text "${text}")
string(REGEX REPLACE "([^\n]*)\n" "    \"\\1\",\n" text "${text}")
file(WRITE "${OUTPUT}" "static const char *const ${NAME}[] = {\n${text}    0};\n")
