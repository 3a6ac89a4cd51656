import { defineConfig, type Plugin } from "vite";

/** Puts the script and the style into the HTML file, so that it opens from anywhere. */
function inline(): Plugin {
  return {
    name: "inline",
    enforce: "post",
    generateBundle(_, bundle) {
      let script = "";
      let style = "";
      for (const [name, file] of Object.entries(bundle)) {
        if (name.endsWith(".js") && file.type === "chunk") script += file.code;
        else if (name.endsWith(".css") && file.type === "asset") style += String(file.source);
        else continue;
        delete bundle[name];
      }
      for (const file of Object.values(bundle)) {
        if (file.type !== "asset" || !file.fileName.endsWith(".html")) continue;
        const html = String(file.source)
          .replace(/\s*<script[^>]*><\/script>/g, "")
          .replace(/\s*<link[^>]*rel="stylesheet"[^>]*>/g, "");
        file.fileName = "app.html";
        file.source = html
          .replace("</head>", () => `<style>${style.trim()}</style></head>`)
          .replace("</body>", () => `<script>${script.trim().replaceAll("</script", "<\\/script")}</script></body>`);
      }
    },
  };
}

export default defineConfig({
  base: "./",
  plugins: [inline()],
  build: {
    target: "es2022",
    outDir: "../src/lm_eval/viewer",
    emptyOutDir: false,
    modulePreload: false,
    cssCodeSplit: false,
    assetsInlineLimit: 1 << 20,
    rollupOptions: { output: { format: "iife" } },
  },
});
