// A terminal that a program draws on.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

#include <termios.h>

namespace uroce::cli {

class Terminal {
 public:
  enum class Use { lines, screen };
  /// With `screen`, and where standard output is a terminal, takes its whole screen until destroyed; else views are
  /// printed one after the other. SIGINT and SIGTERM end the next wait instead of the process.
  explicit Terminal(Use use);
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void draw(std::string_view view);
  /// Lines that fit; 0 for no bound.
  std::size_t lines() const;
  /// False when the user wants to leave: q, ^C, SIGTERM.
  bool wait(std::chrono::milliseconds limit);

 private:
  bool screen_ = false;
  bool keys_ = false;
  termios before_{};
};

}  // namespace uroce::cli
