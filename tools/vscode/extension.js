// Starts qopt-lsp, and shows the diffs of its passes beside each other.
"use strict";

const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

const SCHEME = "qopt";
const SHOW = "qopt.showDiff";

/** @type {LanguageClient | undefined} */
let client;

/** Texts of the virtual documents, by URI. */
const texts = new Map();

function settings() {
  const { server, ...values } = vscode.workspace.getConfiguration("qopt");
  return { ...JSON.parse(JSON.stringify(values)), show: false };
}

/** Shows what a pipeline made of a function or a module. */
async function showDiff(argument, answer) {
  if (!answer.diff) {
    vscode.window.showInformationMessage(`${argument.pipeline} changes nothing`);
    return;
  }
  const name = argument.uri.split("/").pop();
  const of = argument.function ? `${name} ${argument.function}` : name;
  const sides = ["before", "after"].map((side) => {
    const uri = vscode.Uri.from({ scheme: SCHEME, path: `/${side}/${name}`, query: of + argument.pipeline });
    texts.set(uri.toString(), answer[side]);
    return uri;
  });
  await vscode.commands.executeCommand("vscode.diff", ...sides, `${of}: ${argument.pipeline}`);
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
      middleware: {
        executeCommand: async (name, args, next) => {
          const answer = await next(name, args);
          if (name === SHOW && answer) await showDiff(args[0], answer);
          return answer;
        },
      },
    },
  );
  await client.start();
}

async function activate(context) {
  context.subscriptions.push(
    vscode.workspace.registerTextDocumentContentProvider(SCHEME, {
      provideTextDocumentContent: (uri) => texts.get(uri.toString()) ?? "",
    }),
    vscode.commands.registerCommand("qopt.restart", async () => {
      await client?.stop();
      await start();
    }),
    vscode.commands.registerCommand("qopt.ask", async () => {
      const editor = vscode.window.activeTextEditor;
      const pipeline = await vscode.window.showInputBox({ prompt: "Pipeline", value: "optimize" });
      if (!editor || !pipeline) return;
      const uri = client.code2ProtocolConverter.asUri(editor.document.uri);
      await vscode.commands.executeCommand(SHOW, { uri, pipeline });
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
