import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

// Nothing is inlined as a data: URI, so that the page runs under a Content-Security-Policy of 'self'.
export default defineConfig({
  plugins: [react()],
  build: {
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 1024,
    modulePreload: { polyfill: false },
  },
  server: { proxy: { "/v2": { target: "http://127.0.0.1:8080", ws: true } } },
  // A machine whose processors others use takes long for what takes milliseconds.
  test: { environment: "node", include: ["src/**/*.test.ts"], testTimeout: 120_000, hookTimeout: 120_000 },
});
