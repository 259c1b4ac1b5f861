# Makes a C++ source that holds a file as a string: cmake -DINPUT=... -DOUTPUT=... -DNAME=... -P embed.cmake
file(READ "${INPUT}" hex HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
file(WRITE "${OUTPUT}" "#include <string_view>\n\n#include \"calyrex/cli/embedded.h\"\n
namespace calyrex::cli {
namespace {
constexpr unsigned char kBytes[] = {${bytes} 0};
}  // namespace
std::string_view ${NAME}() { return {reinterpret_cast<const char*>(kBytes), sizeof(kBytes) - 1}; }
}  // namespace calyrex::cli
")
