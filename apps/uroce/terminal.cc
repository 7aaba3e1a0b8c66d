#include "uroce/terminal.h"

#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

namespace uroce::cli {

namespace {

volatile sig_atomic_t leaving = 0;
extern "C" void leave(int) { leaving = 1; }

void put(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

}  // namespace

Terminal::Terminal(Use use) {
  struct sigaction action{};
  action.sa_handler = leave;  // without SA_RESTART: poll() ends
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  screen_ = use == Use::screen && isatty(STDOUT_FILENO) == 1;
  keys_ = screen_ && isatty(STDIN_FILENO) == 1 && tcgetattr(STDIN_FILENO, &before_) == 0;
  if (keys_) {
    termios keys = before_;
    keys.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    tcsetattr(STDIN_FILENO, TCSANOW, &keys);
  }
  if (screen_) put("\x1b[?1049h\x1b[?25l");  // alternate screen, no cursor
}

Terminal::~Terminal() {
  if (screen_) put("\x1b[?25h\x1b[?1049l");
  if (keys_) tcsetattr(STDIN_FILENO, TCSANOW, &before_);
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

std::size_t Terminal::columns() const {
  winsize size{};
  return screen_ && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

bool Terminal::wait(std::chrono::milliseconds limit) {
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + limit;
  while (leaving == 0) {
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
