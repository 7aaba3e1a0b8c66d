// The folder of one run.
#pragma once

#include <filesystem>

namespace uroce::run {

/// A temporary folder, locked while this process lives, and removed with all its contents by the destructor. A run that
/// is killed leaves its folder behind; remove_abandoned() of a later run removes it.
class RunFolder {
 public:
  /// Throws std::runtime_error.
  RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;
  ~RunFolder();
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int lock_ = -1;
};

/// TMPDIR's, or /tmp where the paths of sockets below it would be too long (unix(7)), as build tools have it. Throws
/// std::runtime_error.
std::filesystem::path temporary_folder();

/// Makes a folder that no other user may use, unless it is there. Throws std::runtime_error when it is another user's.
void make_own(const std::filesystem::path& folder);

/// Removes the folders of this user's runs that have ended.
void remove_abandoned();

}  // namespace uroce::run
