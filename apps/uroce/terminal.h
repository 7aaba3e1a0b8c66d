// A terminal that a program draws on.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

#include <termios.h>

namespace uroce::cli {

/// Of the terminal that standard output is; 0 where it is none.
std::size_t columns_of_output();

class Terminal {
 public:
  enum class Use { lines, screen };
  /// With `screen`, and if standard output is a terminal, takes the whole screen until it is destroyed. Otherwise views
  /// are printed one after the other. SIGINT and SIGTERM end the next wait instead of the process; a later one ends
  /// the process (ending/end_signals.h). One object at a time.
  explicit Terminal(Use use);
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void draw(std::string_view view);
  /// Lines and columns of the screen; 0 for no limit.
  std::size_t lines() const;
  std::size_t columns() const;
  /// Ends early when the user presses the space bar. False when the user ends it with q, ^C or SIGTERM.
  bool wait(std::chrono::milliseconds limit);

 private:
  bool screen_ = false;
  bool keys_ = false;
  termios before_{};
};

}  // namespace uroce::cli
