// Destroyed objects whose memory stays for a while, so that their use is seen where UROCE_VALIDATE is set
// (validation.h).
#pragma once

#include <new>

namespace uroce::dropin::validation {

namespace detail {
extern bool active;
void bury(void* memory);
}  // namespace detail

/// UROCE_VALIDATE was set when the first device was opened.
inline bool on() { return detail::active; }

/// Ends an object, but leaves the part that the header's inline functions reach into.
template <class Public, class T>
void bury(T* object) {
  const Public left = *object;
  object->~T();
  new (static_cast<void*>(object)) Public(left);
  detail::bury(object);
}

}  // namespace uroce::dropin::validation
