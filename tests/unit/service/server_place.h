// The place of a server's socket, in a folder that ends with it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

namespace uroce::service {

/// A connection belongs to a name of the socket, so that one process can be several programs.
class ServerPlace {
 public:
  /// `test`: no other fixture's of the same program.
  explicit ServerPlace(const std::string& test)
      : folder_(testing::TempDir() + "uroce-" + test + "-" + std::to_string(getpid())) {}
  ~ServerPlace() { std::filesystem::remove_all(folder_); }
  ServerPlace(const ServerPlace&) = delete;
  ServerPlace& operator=(const ServerPlace&) = delete;

  const std::string& folder() const { return folder_; }
  /// As program `number` names it.
  std::string socket(std::size_t number = 0) const { return folder_ + std::string(number + 1, '/') + "socket"; }
  /// As a program that was not there before names it.
  std::string another_program() { return socket(++programs_); }

 private:
  const std::string folder_;
  std::size_t programs_ = 0;
};

}  // namespace uroce::service
