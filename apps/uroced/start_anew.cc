#include "uroced/start_anew.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <unistd.h>

namespace uroce::daemon {

void become_program(const char* program) {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string words{std::istreambuf_iterator<char>(file), {}};
  std::vector<char*> argv;
  for (std::size_t at = 0; at < words.size(); at += std::strlen(&words[at]) + 1) argv.push_back(&words[at]);
  argv.push_back(nullptr);
  file.close();
  execv(program, argv.data());
}

void start_anew() {
  close_range(STDERR_FILENO + 1, ~0U, 0);
  become_program("/proc/self/exe");
}

}  // namespace uroce::daemon
