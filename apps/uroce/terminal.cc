#include "uroce/terminal.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>

#include "ending/end_signals.h"

namespace uroce::cli {

namespace {

constexpr std::string_view kEnter = "\x1b[?1049h\x1b[?25l";  // alternate screen, no cursor
constexpr std::string_view kLeave = "\x1b[?25h\x1b[?1049l";

volatile sig_atomic_t on_screen = 0;
termios* volatile changed = nullptr;  // the keyboard's settings to go back to

/// Runs in a signal handler, when the program ends at once: it may be waiting for a daemon that does not answer.
void give_terminal_back() {
  if (on_screen != 0) {
    [[maybe_unused]] const auto written = write(STDOUT_FILENO, kLeave.data(), kLeave.size());
  }
  if (changed != nullptr) tcsetattr(STDIN_FILENO, TCSANOW, changed);
}

void put(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

}  // namespace

Terminal::Terminal(Use use) {
  catch_end_signals(give_terminal_back);
  screen_ = use == Use::screen && isatty(STDOUT_FILENO) == 1;
  keys_ = screen_ && isatty(STDIN_FILENO) == 1 && tcgetattr(STDIN_FILENO, &before_) == 0;
  if (keys_) {
    termios keys = before_;
    keys.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    changed = &before_;
    tcsetattr(STDIN_FILENO, TCSANOW, &keys);
  }
  if (screen_) put(kEnter);
  on_screen = screen_ ? 1 : 0;
}

Terminal::~Terminal() {
  if (screen_) put(kLeave);
  if (changed != nullptr) tcsetattr(STDIN_FILENO, TCSANOW, changed);
  on_screen = 0;
  changed = nullptr;
}

void Terminal::draw(std::string_view view) {
  if (!screen_) return put(view);
  std::string text = "\x1b[H";
  for (const char c : view) {
    if (c == '\n') text += "\x1b[K";  // erase the rest of the last view's line
    text += c;
  }
  put(text + "\x1b[J");
}

std::size_t Terminal::lines() const {
  winsize size{};
  if (!screen_ || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row < 2) return 0;
  return size.ws_row - 1u;
}

std::size_t columns_of_output() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

std::size_t Terminal::columns() const { return screen_ ? columns_of_output() : 0; }

bool Terminal::wait(std::chrono::milliseconds limit) {
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + limit;
  while (!end_asked()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
    if (left <= std::chrono::milliseconds(0)) return true;
    pollfd key{keys_ ? STDIN_FILENO : -1, POLLIN, 0};
    if (poll(&key, 1, static_cast<int>(left.count())) <= 0) continue;
    char c = 0;
    const ssize_t got = read(STDIN_FILENO, &c, 1);
    if (got == 1 && (c == 'q' || c == 'Q')) return false;
    if (got == 1 && c == ' ') return true;
    if (got <= 0 && errno != EINTR) keys_ = false;  // the keyboard is closed
  }
  return false;
}

}  // namespace uroce::cli
