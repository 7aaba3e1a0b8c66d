// A memory window: a key that engines bind to part of a region and invalidate again.
#pragma once

#include <memory>

#include "control/region.h"

namespace uroce::control {

class Window {
 public:
  Window(std::shared_ptr<Pd> pd, memory::Key key, WindowType type) : pd_(std::move(pd)), key_(key), type_(type) {}
  /// The first key; each bind chooses another.
  memory::Key key() const { return key_; }
  WindowType type() const { return type_; }
  const std::shared_ptr<Pd>& pd() const { return pd_; }

  /// Deleter: unbinds the window, waits for the engines, frees its slot.
  static void destroy(Window* window);

 private:
  std::shared_ptr<Pd> pd_;
  memory::Key key_;
  WindowType type_;
};

}  // namespace uroce::control
