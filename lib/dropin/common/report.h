// Error reports of the libraries' calls: errno, and a text for people. The text goes to stderr when UROCE_VERBOSE is
// set, and to the file that UROCE_EXPLAIN names, which `uroce-run --explain` prints at the end. Calls that only try out
// what a device has are told apart (caller.h).
#pragma once

#include <cerrno>
#include <cstddef>

#include <uroce/error.h>

namespace uroce::dropin {

/// Sets errno, and writes the error's text. Returns the errno value.
int report(const Error& error);
/// report() without an allocation: `text` is a literal.
int refuse(int code, const char* text);
/// refuse() for calls that return a pointer. They create something, and may be a library's probe.
std::nullptr_t refuse_null(int code, const char* text);
inline std::nullptr_t report_null(const Error& error) { return refuse_null(error.code, error.text.c_str()); }
/// refuse_null() for a call whose arguments show that it only asks whether there is such a thing.
std::nullptr_t refuse_probe(int code, const char* text);
/// Sets errno. Returns it.
inline int failed(int code) { return errno = code; }
inline std::nullptr_t failed_null(int code) {
  errno = code;
  return nullptr;
}
/// For calls that return -1.
inline int minus_one(int code) {
  errno = code;
  return -1;
}
inline int report_minus_one(const Error& error) { return minus_one(report(error)); }
/// 0, or -1 with errno.
inline int done(const Result<void>& result) { return result ? 0 : report_minus_one(result.error()); }

}  // namespace uroce::dropin
