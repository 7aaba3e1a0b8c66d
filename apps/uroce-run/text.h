// Small helpers for text and files.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

namespace uroce::run {

/// Writes one line, and creates directories as needed. False when it fails.
inline bool write_line(const std::filesystem::path& path, const std::string& line) {
  std::error_code ignored;
  std::filesystem::create_directories(path.parent_path(), ignored);
  std::ofstream out(path);
  out << line << '\n';
  return out.good();
}

/// The first line of a file, or nothing.
inline std::string read_line(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

}  // namespace uroce::run
