// Starts qopt-lsp.
"use strict";

const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

/** @type {LanguageClient | undefined} */
let client;

function settings() {
  const { server, ...values } = vscode.workspace.getConfiguration("qopt");
  return JSON.parse(JSON.stringify(values));
}

async function start() {
  const command = vscode.workspace.getConfiguration("qopt").get("server", "qopt-lsp");
  client = new LanguageClient(
    "qopt",
    "qopt-lsp",
    { command, args: ["--stdio"] },
    {
      documentSelector: [{ language: "mlir" }],
      initializationOptions: settings(),
      synchronize: {},
    },
  );
  await client.start();
}

async function activate(context) {
  context.subscriptions.push(
    vscode.commands.registerCommand("qopt.restart", async () => {
      await client?.stop();
      await start();
    }),
    vscode.workspace.onDidChangeConfiguration(async (event) => {
      if (event.affectsConfiguration("qopt.server")) {
        await vscode.commands.executeCommand("qopt.restart");
      } else if (event.affectsConfiguration("qopt")) {
        await client?.sendNotification("workspace/didChangeConfiguration", { settings: settings() });
      }
    }),
  );
  await start();
}

function deactivate() {
  return client?.stop();
}

module.exports = { activate, deactivate };
