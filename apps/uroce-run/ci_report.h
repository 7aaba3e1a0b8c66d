// The end of `uroce-run --ci`: objects that the command's programs left, and what went wrong with them, as the daemon
// saw it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <map>
#include <string>
#include <vector>

namespace uroce::run {

struct CiOptions {
  bool on = false;
  bool fail_on_left = false;
  bool fail_on_troubles = false;
  bool fail_on_misuses = false;
  std::filesystem::path junit{};  ///< empty: none
};

/// Sets what `words` ("left,troubles,misuse") names. False: a word is no such kind.
bool set_fail_on(CiOptions& options, const std::string& words);

struct CiProgram {
  std::string name;                    ///< "ib_write_bw, process 4711"
  std::vector<std::string> left;       ///< "2 queue pairs"
  std::vector<std::string> troubles;   ///< "queue pair 0x11 ... ended with retry_exceeded"
  std::vector<std::string> misuses{};  ///< "misuse unregistered: ...", and notes
  std::string validated{};             ///< "512 work requests validated, no misuse"; empty: not by a validator
};

class CiReport {
 public:
  /// Asks the daemon, once no program but this one uses it; those that still do after 2 s are named. Throws
  /// std::runtime_error.
  static CiReport of_daemon();
  explicit CiReport(std::vector<CiProgram> programs, std::vector<std::string> running = {})
      : programs_(std::move(programs)), running_(std::move(running)) {}

  /// Takes out the refusals with which libraries learnt what the devices have: `refusals` is the file of
  /// collect_refusals().
  void forgive_probes(std::istream& refusals);
  /// Adds what the libraries' validators wrote to `file`, and each program that has validated its calls.
  void add_misuses(std::istream& file);

  /// The exit code of `uroce-run`; `code` is the command's.
  int exit_code(const CiOptions& options, int code) const;
  void print(const CiOptions& options, std::ostream& out) const;
  /// A test case for the command, and two for each program that left something or had trouble,
  /// and one for each that was validated.
  void write_junit(const CiOptions& options, const std::vector<std::string>& command, int code,
                   std::ostream& out) const;

 private:
  bool any_left() const;
  bool any_troubles() const;
  bool any_misuses() const;

  std::vector<CiProgram> programs_;
  std::vector<std::string> running_;
};

}  // namespace uroce::run
