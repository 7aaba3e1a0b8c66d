// The end of `uroce-run --ci`: objects that the command's programs left, and what went wrong with them, as the daemon
// saw it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <map>
#include <string>
#include <vector>

#include "client/daemon_link.h"

namespace uroce::run {

struct CiOptions {
  bool on = false;
  bool fail_on_left = false;
  bool fail_on_troubles = false;
  bool fail_on_misuses = false;
  std::filesystem::path junit{};   ///< empty: none
  std::filesystem::path record{};  ///< where recordings of engines stay; empty: nowhere
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
  /// Asks the daemon, once no program but this one uses it, or after 2 s. Throws std::runtime_error.
  static CiReport of_daemon();

  /// Ends the programs that still use the daemon, where the command started them. It is a trouble of theirs.
  void end_running();

  /// Takes out the refusals with which libraries learnt what the devices have: `refusals` is the file of
  /// collect_refusals().
  void forgive_probes(std::istream& refusals);
  /// Adds what the libraries' validators wrote to `file`, and each program that has validated its calls.
  void add_misuses(std::istream& file);

  /// The exit code of `uroce-run`; `code` is the command's.
  int exit_code(const CiOptions& options, int code) const;
  /// Did a queue pair end by itself?
  bool tells_of_ends() const;
  void print(const CiOptions& options, std::ostream& out) const;
  /// A test case for the command, and two for each program that left something or had trouble,
  /// and one for each that was validated.
  void write_junit(const CiOptions& options, const std::vector<std::string>& command, int code,
                   std::ostream& out) const;

 private:
  bool any_left() const;
  bool any_troubles() const;
  bool any_misuses() const;

  struct Running {
    pid_t pid = 0;
    std::string name;  ///< as of CiProgram
    bool operator==(const Running&) const = default;
  };
  static std::vector<Running> running_programs(client::DaemonLink& daemon);
  CiReport(std::vector<CiProgram> programs, std::vector<Running> running)
      : programs_(std::move(programs)), running_(std::move(running)) {}
  /// The program of this name. A new one stands at the end.
  CiProgram& program_of(const std::string& name);

  std::vector<CiProgram> programs_;
  std::vector<Running> running_;
};

}  // namespace uroce::run
