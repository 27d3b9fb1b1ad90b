// The least that C++ does with Kith: c++ -std=c++17 version.cpp $(pkg-config --cflags --libs kith) -o version
#include <CKith.h>

#include <iostream>
#include <string_view>

int main()
{
    kith_error error{};
    // A lambda that captures nothing is a callback.
    const auto code = kith_call(0, "device.status", nullptr, 0, nullptr, 0,
                                [](void *, const kith_error *, const char *, size_t) {}, nullptr, nullptr, &error);
    std::cout << "Kith " << kith_version() << ": " << kith_code_text(code) << "\n";
    return code == KITH_NOT_FOUND && std::string_view(error.message).size() > 0 ? 0 : 1;
}
