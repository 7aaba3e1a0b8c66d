// The XDP program of a net_af_xdp port: which frames come up to the port, and which stay the kernel's.
//
// DPDK's driver takes a program from a file (`xdp_prog=PATH`) when the port is configured. Ours is a file in memory, so
// that it needs no place on disk. EAL must have the path before the port's addresses are known, so the file is empty
// at first, and the port writes it.
#pragma once

#include <cstdint>
#include <string>

#include <uroce/error.h>

namespace uroce::glue::xdp {

enum class Steering : uint8_t {
  roce,  ///< UDP port 4791 comes up, everything else is the kernel's
  all,   ///< every frame comes up, as with the driver's own program
};

/// Whether this build has the programs: a compiler for BPF made them.
bool have_programs();

/// A file in memory, empty at first. One thread at a time.
class ProgramFile {
 public:
  /// Errors: the system's.
  static Result<ProgramFile> make();
  ~ProgramFile();
  ProgramFile(ProgramFile&& other) noexcept;
  ProgramFile& operator=(ProgramFile&&) = delete;
  /// For this process, while the object lives.
  std::string path() const;

 private:
  explicit ProgramFile(int fd) : fd_(fd) {}
  int fd_;
};

/// True for a path that ProgramFile gave to this process.
bool is_program_file(const std::string& path);
/// Writes the program. Errors: ENOTSUP in a build without programs, or the system's.
Result<void> write_program(const std::string& path, Steering steering);

}  // namespace uroce::glue::xdp
