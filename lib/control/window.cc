#include "control/window.h"

#include <cerrno>

#include <fmt/format.h>

#include "control/device_session.h"

namespace uroce::control {

Result<std::shared_ptr<Window>> DeviceSession::create_window(std::shared_ptr<Pd> pd, WindowType type,
                                                             const memory::KeyState* as) {
  if (auto ok = check_owner(pd.get(), pd ? pd->session().get() : nullptr, "protection domain"); !ok) {
    return std::unexpected(ok.error());
  }
  if (type != WindowType::type1 && type != WindowType::type2) {
    return fail(EINVAL, fmt::format("unknown memory window type {}; it must be 1 or 2", static_cast<int>(type)));
  }
  const auto lock = device_->runner().lock();
  if (auto alive = device_->check_alive(); !alive) return std::unexpected(alive.error());
  const auto key = device_->objects().keys().add_window(pd->id(), type, as);
  if (!key) return std::unexpected(key.error());
  return std::shared_ptr<Window>(new Window(std::move(pd), *key, type), &Window::destroy);
}

void Window::destroy(Window* window) {
  Device& device = *window->pd_->session()->device();
  device.objects().keys().end(window->key_, nullptr, device.runner());
  delete window;
}

}  // namespace uroce::control
