// uroced-settings writes the documents of the settings, or checks that they are current. Only the build runs it.
#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "uroced/settings_documents.h"

namespace uroce::daemon {

namespace {

std::string text_of_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

int run(bool is_check, const std::string& root) {
  const std::pair<std::string, std::string> documents[] = {{root + "/config/uroced.toml", settings_sample()},
                                                           {root + "/config/settings.md", settings_reference()}};
  int code = 0;
  for (const auto& [path, text] : documents) {
    if (!is_check) {
      std::ofstream(path, std::ios::binary) << text;
    } else if (text_of_file(path) != text) {
      fmt::print("{} is not what the table of settings says; write it anew: ninja -C build settings\n", path);
      code = 1;
    }
  }
  return code;
}

}  // namespace

}  // namespace uroce::daemon

int main(int argc, char** argv) {
  const bool is_check = argc == 3 && std::string_view(argv[1]) == "--check";
  if (argc != 2 && !is_check) {
    fmt::print(stderr, "Usage: uroced-settings [--check] SOURCE_ROOT\n");
    return 2;
  }
  return uroce::daemon::run(is_check, argv[argc - 1]);
}
