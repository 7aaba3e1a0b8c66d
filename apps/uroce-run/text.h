// Small helpers for text and files.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

namespace uroce::run {

/// The first line of a file, or nothing.
inline std::string read_line(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

/// Makes `line` the file's contents, and creates directories as needed. Readers see the old line or the new one. False
/// when it fails.
inline bool write_line(const std::filesystem::path& path, const std::string& line) {
  std::error_code failed;
  if (std::filesystem::exists(path, failed) && read_line(path) == line) return true;
  std::filesystem::create_directories(path.parent_path(), failed);
  const std::filesystem::path draft = path.parent_path() / ("." + path.filename().string());
  std::ofstream out(draft);
  out << line << '\n';
  out.close();
  std::filesystem::rename(draft, path, failed);
  return out.good() && !failed;
}

}  // namespace uroce::run
